"""Environments as a scenario's file has them."""

from __future__ import annotations

import pytest

from alerts.generator.document import FileError, Value, parse
from lab.cgroups import TierLimits
from lab.environments import Base, Guest, Limited, read


def value(text: str) -> Value:
    document = parse(f"environments:\n  - {text}\n", "mine.yml")
    assert document is not None
    return document.entries()["environments"].items()[0]


def test_the_machine_a_cgroup_and_a_guest() -> None:
    assert read(value("base"), "1") == Base("1")
    assert read(value("{name: capped, cap: 0.2}"), "1") == Limited("capped", TierLimits(100, 0.2, "1"))
    assert read(value("{name: light, weight: 50}"), None) == Limited("light", TierLimits(50, None, None))
    guest = read(value("{name: web, ssh: root@web1, platform: kvm}"), "1")
    assert guest == Guest("web", "root@web1", "kvm", emulated=False)
    emulated = read(value("{name: web, ssh: root@web1, platform: xen, emulated: true}"), "1")
    assert emulated == Guest("web", "root@web1", "xen", emulated=True)


MISTAKES = [
    ("hase", ": 'hase' is not base; others have keys, such as {name: capped, cap: 0.5}"),
    ("{cap: 1}", ": name is missing, for example `name: capped`"),
    ("{name: a, cap: 0.01}", ".cap: 0.01 is less than the smallest cap, 0.05 CPUs"),
    ("{name: a, weight: 0}", ".weight: '0' is not a whole number from 1 to 10000"),
    ("{name: a, emulated: true}", ".emulated: is only for guests, which have the key ssh"),
    (
        "{name: a, ssh: b, platform: kvm, cap: 1}",
        ".cap: is only for cgroups of this machine; a guest has what its host gives it",
    ),
    ("{name: a, ssh: b}", ".ssh: say below it what the guest runs on: platform: xen or openvz or kvm"),
    ("{name: a, ssh: b, platform: kwm}", ".platform: 'kwm' is no platform; did you mean kvm?"),
    ("{name: a, ssh: b, platform: kvm, emulated: 1}", ".emulated: '1' is neither true nor false"),
    ("[base]", ": must be a mapping, such as `key: value`"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES, ids=[text for text, _ in MISTAKES])
def test_mistakes_are_named_with_line_and_key(text: str, message: str) -> None:
    with pytest.raises(FileError) as error:
        read(value(text), None)
    assert str(error.value) == f"mine.yml:2: environments[1]{message}"
