"""Requests to hosts whose guests' caps are switched, and the hosts' answers."""

from functools import partial

import pytest

from lab import LabError
from lab.allocation.platforms import kvm, of, openvz, xen
from tests.support.refusals import assert_refused

# Formats of Xen 4.17, vzlist and libvirt 9.0.
SCHED_CREDIT2 = """\
Cpupool Pool-0: ratelimit=1000us
Name                                ID Weight  Cap
Domain-0                             0    256    0
web 1                                3    512   40
db                                   4    256    0
"""
XL_LIST = """\
1234.56 2000.00
Name                                        ID   Mem VCPUs\tState\tTime(s)
Domain-0                                     0   640     1     r-----      61.5
web 1                                        3    96     1     -b----      20.3
db                                           4    96     1     ------       7.8
other                                        5    96     1     -b----       1.0
"""
VZLIST = "       101     20\n       102      0\n"
VESTAT = """\
99.10 180.00
cpu  1000 20 300 50000 60 7 8 0 0 0
Version: 2.2
               VEID                 user                 nice               system               uptime                 idle                 strv               uptime                 used               maxlat               totlat             numsched
                101                 2000                    0                  500               100000                    0                    0         100000000000                    0                    0                    0                    0
                102                  100                   50                   50               100000                    0                    0         100000000000                    0                    0                    0                    0

"""  # noqa: E501
SCHEDINFO = """\
Domain: web 1
Scheduler      : posix
cpu_shares     : 100
vcpu_quota     : 17592186044415
global_period  : 100000
global_quota   : 40000

Domain: db
Scheduler      : posix
cpu_shares     : 100
global_period  : 100000
global_quota   : 17592186044415

"""
DOMSTATS = """\
99.10 180.00
cpu  1000 20 300 50000 60 7 8 0 0 0
Domain: 'web 1'
  cpu.time=20300000000
  cpu.user=1

Domain: 'db'
  cpu.time=7800000000

"""
XEN, OPENVZ, KVM = xen(("web 1", "db")), openvz(("101", "102")), kvm(("web 1", "db"))
VIRSH = "virsh -c qemu:///system"


def test_caps_are_taken_back_as_they_were() -> None:
    assert XEN.undo(SCHED_CREDIT2) == ["xl sched-credit2 -d 'web 1' -c 40", "xl sched-credit2 -d db -c 0"]
    assert OPENVZ.undo(VZLIST) == ["vzctl set 101 --cpulimit 20", "vzctl set 102 --cpulimit 0"]
    assert OPENVZ.undo("101 -\n102 150\n") == ["vzctl set 101 --cpulimit 0", "vzctl set 102 --cpulimit 150"]
    assert KVM.undo(SCHEDINFO) == [
        f"{VIRSH} schedinfo 'web 1' --live global_period=100000 global_quota=40000",
        f"{VIRSH} schedinfo db --live global_period=100000 global_quota=-1",
    ]


def test_caps_in_each_platforms_own_unit() -> None:
    assert xen(("web 1",), "credit").cap("web 1", 0.25) == "xl sched-credit -d 'web 1' -c 25"
    assert OPENVZ.cap("101", 0.25) == "vzctl set 101 --cpulimit 25"
    assert KVM.cap("db", 0.25) == f"{VIRSH} schedinfo db --live global_period=20000 global_quota=5000"


def test_cpu_times_of_the_host_and_of_its_guests() -> None:
    for platform, printed, clock, machine, guests in (
        (XEN, XL_LIST, 1234.56, {"0": 61.5, "3": 20.3, "4": 7.8, "5": 1.0}, (20.3, 7.8)),
        (OPENVZ, VESTAT, 99.1, {"": 13.35}, (2.5, 0.2)),  # at 1,000 Hz
        (KVM, DOMSTATS, 99.1, {"": 13.35}, (20.3, 7.8)),
    ):
        found = platform.times(printed)
        assert found.clock == clock
        assert found.machine == pytest.approx(machine)
        assert found.guests == pytest.approx(guests)


def test_what_is_not_understood_or_does_not_run_is_named() -> None:
    gone = "there is no running guest '(db|102)'; is its name right"
    old = r"virsh schedinfo db has no global_quota: caps need libvirt 1\.3\.3"
    for call, printed, message in (
        (XEN.undo, SCHED_CREDIT2.replace("db ", "bd "), gone),
        (OPENVZ.undo, "101 20\n", gone),
        (KVM.undo, SCHEDINFO.partition("\n\n")[0], gone),
        (KVM.undo, SCHEDINFO.replace("global_quota   : 1759", "other          : 1759"), old),
        (XEN.times, XL_LIST.partition("Name")[0], "xl list: no list of domains"),
        (XEN.times, XL_LIST.replace("1.0\n", "1\n"), "xl list prints a line that is not understood: b'other "),
        (XEN.times, XL_LIST.replace("1234.56", "1234"), "/proc/uptime is not understood: '1234 2000.00'"),
        (OPENVZ.times, VESTAT.replace("Version", "version"), "begins with 'version: 2.2', not with its version"),
        (KVM.times, DOMSTATS.replace("cpu  1000", "cpu0 1000"), "/proc/stat is not understood: 'cpu0 1000"),
        (KVM.times, DOMSTATS.replace("cpu.time=78", "cpu.tim=78"), gone),
        (
            partial(of, "xen", ("web 1",)),
            "xen_scheduler          : rtds\n",
            "Xen's scheduler rtds has no caps: boot with",
        ),
    ):
        assert_refused(LabError, message, call, printed)
    assert of("xen", ("web 1",), "xen_scheduler          : credit\n").look == "xl sched-credit"
