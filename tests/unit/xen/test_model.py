"""What of the model is more than a field: names of any bytes, and what sources don't describe."""

from __future__ import annotations

import pytest

from virtscope.xen.model import DOM0, Domain, Host, Missing, decoded


@pytest.mark.parametrize(
    ("name", "shown"),
    [(None, ""), (b"web", "web"), ("Käse".encode(), "Käse"), (b"cut \xc3", "cut \\xc3"), (b"\xff\n", "\\xff\n")],
)
def test_a_name_shows_whatever_its_bytes_are(name: bytes | None, shown: str) -> None:
    assert decoded(name) == shown


def _domain(domid: int, missing: Missing | None = None) -> Domain:
    domain = Domain(domid, f"d{domid}", 1.0, 0, None, 0, frozenset(), (), (), ())
    return domain._replace(missing=missing) if missing else domain


def _host(*domains: Domain) -> Host:
    return Host(None, None, None, None, None, domains)


def test_what_is_missing_of_the_domains_adds_up() -> None:
    assert _host(_domain(DOM0), _domain(1, Missing(1, 2, 3)), _domain(2, Missing(0, 20, 30))).missing() == (1, 22, 33)


def test_nothing_is_missing_unless_a_source_says_so() -> None:
    assert _host().missing() == _host(_domain(DOM0), _domain(1)).missing() == (0, 0, 0)
