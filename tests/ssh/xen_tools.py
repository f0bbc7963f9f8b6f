"""Programs and files of a Dom0 in a folder: xentop and xl answer as captured from Xen 4.17.

Its networks are set up as with Open vSwitch: only in /proc/net/dev, one of them under a custom name.
"""

import re
from pathlib import Path

from tests.unit.xen.fake_host import write_net_dev
from tests.unit.xen.fake_programs import FakeXl

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"

# Like the real one: an iteration each second, or only one with `-i 1`.
_XENTOP = """#!/bin/sh
cat {iteration}
case "$*" in *"-i 1") exit;; esac
while sleep 1; do cat {iteration} || exit; done
"""

# Per interface, bytes, packets, errors and drops that Dom0 received, then sent.
LO, APP = (9,) * 8, (3, 3, 0, 0, 5, 5, 0, 0)
WEB01, DB01 = (467788, 488, 0, 0, 459340, 463, 0, 0), (471694, 489, 0, 0, 463424, 466, 0, 0)


class XenTools:
    """A folder for PATH with xentop and xl, and folders for /proc and /sys."""

    def __init__(self, folder: Path) -> None:
        self.xl = FakeXl(folder, FIXTURES / "toolstack/xl-4.17-credit")
        self.folder = self.xl.folder
        # xl was captured at another time than xentop: domains are only joined if their CPU times match.
        listed = (self.xl.answers / "list -v").read_text()
        for earlier, then in ((" 76.6", "104.0"), (" 7.8", "32.0"), (" 7.8", "27.0"), ("11.0", "51.0")):
            listed = listed.replace(earlier, then, 1)
        self.xl.answer("list -v", listed)
        self.iteration = folder / "iteration"
        printed = (FIXTURES / "xentop/xen-4.17-fnxv.txt").read_text()
        header = printed.partition("\n")[0]
        iteration = header + printed.split(header)[1]
        in_rows = re.sub(r"(?m) 1 +[0-9]+ +[0-9]+( +1 +0 )", r" 0 0 0\1", iteration)  # NETS, NETTX, NETRX
        self.iteration.write_text(re.sub(r"(?m)^Net0 .*\n", "", in_rows))
        program = self.folder / "xentop"
        program.write_text(_XENTOP.format(iteration=self.iteration))
        program.chmod(0o755)
        self.sysfs = folder / "sys"
        version = self.sysfs / "hypervisor/version"
        version.mkdir(parents=True)
        for part, value in (("major", "4"), ("minor", "17"), ("extra", ".5")):
            (version / part).write_text(f"{value}\n")
        self.procfs = folder / "proc"
        interfaces = {"lo": LO, "vif1.0": WEB01, "db": DB01, "vif3.0": APP, "vif3.1": APP}
        write_net_dev(self.procfs, interfaces)
        for interface, nodename in (("db", "backend/vif/2/0"), ("vif1.0", "backend/vif/1/0")):
            device = self.sysfs / "class/net" / interface / "device"
            device.mkdir(parents=True)
            (device / "nodename").write_text(f"{nodename}\n")
