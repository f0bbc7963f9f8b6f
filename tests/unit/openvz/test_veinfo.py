"""/proc/vz/veinfo as text."""

from virtscope.openvz.veinfo import Container, parse

UUID = "4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11"
MAX_IP = "9" * 20
TEXT = (
    f"\n       101     2    35       192.0.2.1  192.0.2.2\n{UUID}  0 12  2001:db8::1\n7 0 {MAX_IP}\n \n   0  0   240\n"
)


def test_containers_without_the_host() -> None:
    assert parse(TEXT) == ((Container("101", 35, 2), Container(UUID, 12, 1), Container("7", int(MAX_IP), 0)), 0)


def test_a_bad_line_costs_only_itself() -> None:
    for bad in ("8\n", "8 0\n", "8 0 x\n", f"8 0 {'9' * 21}\n", "8 0 -1\n", "7 0 4\n", "8 0 35 192.0."):
        assert parse(TEXT + bad) == (parse(TEXT).containers, 1), bad
