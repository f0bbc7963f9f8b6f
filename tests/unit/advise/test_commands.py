"""Commands for each manager, with names that a shell must not read."""

import pytest

from advise.commands import PCT, QM, VIRSH, VZ, XL, Managed, cap, move, vcpus


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl migrate 'web 1' xen2"),
        (VIRSH, "virsh migrate --live --persistent --undefinesource 'web 1' qemu+ssh://xen2/system"),
        (QM, "qm migrate 'web 1' xen2 --online"),
        (PCT, "pct migrate 'web 1' xen2 --restart"),
        (VZ, "vzmigrate --online xen2 'web 1'"),
    ],
)
def test_a_move(by: str, expected: str) -> None:
    assert move(Managed(by, "web 1"), "xen2") == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl sched-credit2 --domain=web --cap=25"),
        (VIRSH, "virsh schedinfo web --live global_period=100000 global_quota=25000"),
        (QM, "qm set web --cpulimit 0.25"),
        (PCT, "pct set web --cpulimit 0.25"),
        (VZ, "vzctl set web --cpulimit 25 --save"),
    ],
)
def test_a_cap(by: str, expected: str) -> None:
    assert cap(Managed(by, "web"), 0.25) == expected


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (XL, "xl vcpu-set web 4"),
        (VIRSH, "virsh setvcpus web 4 --live --config"),
        (QM, "qm set web --vcpus 4"),
        (VZ, None),
    ],
)
def test_vcpus(by: str, expected: str | None) -> None:
    assert vcpus(Managed(by, "web"), 4) == expected
