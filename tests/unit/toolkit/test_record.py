"""Stand-ins for names: unlike them, all different, of the same shape."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtscope.toolkit.record import StandIns


@given(st.sets(st.binary(max_size=12)))
def test_one_for_each_name_and_no_two_alike(names: set[bytes]) -> None:
    stand_ins = StandIns()
    given_first = {name: stand_ins(name) for name in names}
    assert len(set(given_first.values())) == len(names)
    assert {name: stand_ins(name) for name in names} == given_first


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        (b"web01.example.org", rb"[a-z]{3}[0-9]{2}\.[a-z]{7}\.[a-z]{3}"),
        (b"  two  Blanks ", rb"  [a-z]{3}  [A-Z][a-z]{5} "),
        (b"4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11", rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
        (b"192.0.2.17", rb"[0-9]{3}\.[0-9]\.[0-9]\.[0-9]{2}"),
        (b"2001:db8::9", rb"[0-9]{4}:[a-f]{2}[0-9]::[0-9]"),
        (b"cut \xc3", rb"[a-z]{3} [\xf8-\xff]"),
        (b"--", rb"--"),
    ],
)
def test_shape(name: bytes, shape: bytes) -> None:
    stand_in = StandIns()(name)
    assert re.fullmatch(shape, stand_in)
    assert stand_in != name or name == b"--"


@given(st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"]), min_size=1, max_size=6))
def test_letters_beyond_ascii_are_others_of_as_many_bytes(name: str) -> None:
    stand_in = StandIns()(name.encode())
    assert [len(letter.encode()) for letter in stand_in.decode()] == [len(letter.encode()) for letter in name]


def test_more_short_names_than_letters_still_differ() -> None:
    stand_ins = StandIns()
    names = [bytes([letter]) for letter in b"abcdefghijklmnopqrstuvwxyz"]
    assert len({stand_ins(name) for name in names}) == 26
