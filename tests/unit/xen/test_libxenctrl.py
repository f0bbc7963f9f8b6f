"""Idle time of physical CPUs, with a libxenctrl compiled for the test."""

import logging

import pytest

from tests.unit.xen.fake_host import FakeXen
from virtscope.xen.libxenctrl import IdleTimes


@pytest.mark.parametrize("cpus", [4, 256, 300])
def test_every_cpu_is_read(xen: FakeXen, cpus: int) -> None:
    xen.build_libxenctrl("-DSTOCK")
    xen.idle = [10**6 + cpu if cpu % 3 else 0 for cpu in range(cpus)]
    xen.show()
    source = IdleTimes(str(xen.sysfs), str(xen.libraries))
    assert [source.read(), source.read()] == [xen.idle, xen.idle]


def test_without_the_call_there_are_no_times_and_one_line_says_so(
    xen: FakeXen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    source = IdleTimes(str(xen.sysfs), str(xen.libraries))
    assert [source.read(), source.read()] == [None, None]
    assert [record.msg for record in caplog.records] == ["idle time of CPUs unavailable"]
    xen.build_libxenctrl("-DBEFORE_4_1")
    assert source.read() is None
    assert "no xc_getcpuinfo" in str(caplog.records[-1].fields)  # type: ignore[attr-defined]


def test_after_a_failure_it_starts_over(xen: FakeXen, caplog: pytest.LogCaptureFixture) -> None:
    xen.build_libxenctrl()
    source = IdleTimes(str(xen.sysfs), str(xen.libraries))
    for says in ("xenctrl-closed 1", "idle-fails 1", "idle-fails 1"):
        xen.say(says)
        assert source.read() is None
    assert len(caplog.records) == 2, "one line for each reason"
    xen.idle = [5, 6]
    xen.show()
    assert source.read() == [5, 6]
