"""QEMU's options that take a value, from the -help output of this machine's QEMU."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.needs import need
from tests.unit.kvm.captured import command_line
from virtscope.kvm.command_line import parse

pytestmark = pytest.mark.system

OPTION = re.compile(r"--?([\w-]+(?:/-[\w-]+)*(?: or -\w+)?)(\s.*)?")
EXPLANATION = 16  # column of the explanation, unless the option is longer


def options(text: str) -> dict[str, bool]:
    """Each option of `qemu -help`, and whether it takes a value.

    -h or -help     display this help and exit
    -fda/-fdb file  use 'file' as floppy disk 0/1 image
    -async-teardown enable asynchronous teardown
    -xen-domid-restrict     restrict set of available xen operations
    -watchdog-action reset|shutdown|poweroff
    """
    found: dict[str, bool] = {}
    for line in text.splitlines():
        option = OPTION.fullmatch(line)
        if option:
            end, rest = option.end(1), option[2] or ""
            has_value = bool(line[end:EXPLANATION].strip()) or (end >= EXPLANATION and bool(re.match(r" \S", rest)))
            found |= dict.fromkeys(re.split("/-| or -", option[1]), has_value)
    return found


def test_all_options_of_this_qemu_are_known() -> None:
    need(qemu_system_x86="qemu-system-x86_64")
    text = subprocess.run(["qemu-system-x86_64", "-help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = options(text)
    assert len(found) > 100
    assert (found["name"], found["S"]) == (True, False)
    wrong = []
    for option, has_value in found.items():
        if option not in {"h", "help", "version", "name"}:
            # If the option takes a value, "-name" is that value, and the first name counts.
            line = parse(command_line("-name", "first", f"-{option}", "-name", "second"))
            if not line or line.name != ("first" if has_value else "second"):
                wrong.append(option)
    assert wrong == []
