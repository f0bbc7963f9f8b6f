"""The capabilities of parts if root starts the stack."""

import os
import re
from pathlib import Path

import pytest

from deploy import privileges
from deploy.parts import PARTS

HEADER = Path("/usr/include/linux/capability.h")


@pytest.mark.skipif(not HEADER.exists(), reason="no headers of the kernel's here: apt-get install libc6-dev")
def test_they_have_the_kernel_s_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(privileges, "_bounding_set", lambda: 2**64 - 1)
    numbers = dict(re.findall(r"^#define (CAP_\w+)\s+(\d+)$", HEADER.read_text(), re.MULTILINE))
    for part in PARTS:
        given = "".join(f",+cap_{numbers[name]}" for name in part.capabilities)
        wanted = [f"--{kind}=-all{given}" for kind in ("bounding-set", "inh-caps", "ambient-caps")]
        assert privileges.setpriv(part.capabilities)[-3:] == wanted, part.name


def test_what_root_has_not_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(privileges, "_bounding_set", lambda: 0)
    assert privileges.setpriv(["CAP_BPF"])[-1] == "--ambient-caps=-all"
