"""Programs and files of a Dom0, in a folder: xentop and xl answer as the real ones of Xen 4.17 did."""

from __future__ import annotations

from pathlib import Path

from tests.unit.xen.fake_xl import FakeXl

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"

# As the real one: an iteration each second, with `-i 1` one alone.
_XENTOP = """#!/bin/sh
cat {iteration}
case "$*" in *"-i 1") exit;; esac
while sleep 1; do cat {iteration} || exit; done
"""


class XenTools:
    """A folder for PATH with xentop and xl in it, and one for /sys."""

    def __init__(self, folder: Path) -> None:
        self.xl = FakeXl(folder, FIXTURES / "toolstack/xl-4.17-credit")
        self.folder = self.xl.folder
        # xl was asked at another time than xentop: domains are joined only where their CPU times fit.
        listed = (self.xl.answers / "list -v").read_text()
        for earlier, then in ((" 76.6", "104.0"), (" 7.8", "32.0"), (" 7.8", "27.0"), ("11.0", "51.0")):
            listed = listed.replace(earlier, then, 1)
        self.xl.answer("list -v", listed)
        self.iteration = folder / "iteration"
        printed = (FIXTURES / "xentop/xen-4.17-fnxv.txt").read_text()
        header = printed.partition("\n")[0]
        self.iteration.write_text(header + printed.split(header)[1])
        program = self.folder / "xentop"
        program.write_text(_XENTOP.format(iteration=self.iteration))
        program.chmod(0o755)
        self.sysfs = folder / "sys"
        version = self.sysfs / "hypervisor/version"
        version.mkdir(parents=True)
        for part, value in (("major", "4"), ("minor", "17"), ("extra", ".5")):
            (version / part).write_text(f"{value}\n")
