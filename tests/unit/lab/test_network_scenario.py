"""Scenarios of network costs: which steps they mean, and what is said of one with a mistake."""

from __future__ import annotations

import pytest

from lab import scenario, studies
from lab.keys import ScenarioError
from lab.network import experiment
from lab.network.scenario import Configuration, Network, WebLoad, parse

VALID = "study: network\nabout: What does a bridge cost?\n"


def test_the_shipped_scenario_has_the_studys_repetitions() -> None:
    found = studies.load(scenario.find("network"))
    assert isinstance(found, Network)
    assert found.repetitions == 5
    assert len({step.name for step in found.steps}) == len(found.steps) == 5 * (3 * 2 * 2 * 2 + 3 * 2)
    assert experiment.planned_seconds(found) <= 30 * 60


def test_configurations_take_turns_in_being_the_first() -> None:
    text = VALID + "paths: [loopback, veth]\ndirections: send\nsizes: 256\noffloads: on\nrepetitions: 2\n"
    assert [step.name for step in parse(text, "mine.yml").steps] == [
        "loopback-send-256-offloads-on-1",
        "veth-send-256-offloads-on-1",
        "veth-send-256-offloads-on-2",
        "loopback-send-256-offloads-on-2",
    ]


def test_a_configuration_is_read_from_its_name() -> None:
    for step in parse(VALID, "mine.yml").steps:
        assert Configuration.parse(step.configuration.name) == step.configuration
    assert Configuration.parse("tap, send, 256 bytes, offloads on") is None


def test_a_web_load_asks_for_a_small_and_a_large_file_over_each_path() -> None:
    text = (
        VALID + "paths: [loopback, veth]\ndirections: send\nsizes: 256\noffloads: on\nweb_rates: 50\nrepetitions: 1\n"
    )
    loads = [step.configuration for step in parse(text, "mine.yml").steps if isinstance(step.configuration, WebLoad)]
    assert loads == [WebLoad(path, size, 50) for path in ("loopback", "veth") for size in (1_024, 131_072)]
    for one in loads:
        assert WebLoad.parse(one.name) == one
        assert Configuration.parse(one.name) is None


GUESTS = "guests:\n  - {name: web 1, ssh: root@web1, platform: xen}\n"


def test_a_guest_is_another_path_whose_offloads_stay_as_they_are() -> None:
    found = parse(VALID + GUESTS + "paths: veth\nsizes: 256\nrepetitions: 1\nweb_rates: 50\n", "mine.yml")
    of_guest = [step for step in found.steps if step.configuration.path.startswith("guest")]
    assert [step.name for step in of_guest] == [
        "guest-web-1-send-256-offloads-unchanged-1",
        "guest-web-1-receive-256-offloads-unchanged-1",
        "guest-web-1-web-1024-50-1",
        "guest-web-1-web-131072-50-1",
    ]
    for step in of_guest:
        assert type(step.configuration).parse(step.configuration.name) == step.configuration


def test_the_plan_has_every_command_in_the_guest_and_to_it() -> None:
    text = VALID + GUESTS + "paths: veth\nsizes: 256\nweb_rates: 50\nduration: 7s\n"
    plan = "\n".join(experiment.plan(parse(text, "mine.yml")))
    assert 'On root@web1: echo "$SSH_CONNECTION", which says its ADDRESS' in plan
    assert "On root@web1: iperf3 --server --bind=ADDRESS --port=5201" in plan
    assert "On this machine: iperf3 --client=ADDRESS --port=5201 --json --length=256 --no-delay --time=7" in plan
    assert "On root@web1: nginx by sh with lab/network/nginx.sh, in a folder of its own in /tmp" in plan
    assert "veth: /usr/sbin/nginx " in plan
    assert "-rate=50/s -duration=7s" in plan
    for address in ("192.0.2.1", "ADDRESS"):
        assert f"GET http://{address}:8080/131072" in plan


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("web_rates: [50, 0]", r"mine\.yml:3: web_rates\[2\]: '0' is not a whole number from 1 to 100000"),
        ("web_rates: fast", r"mine\.yml:3: web_rates: 'fast' is not a whole number"),
        ("guests: [base]", r"mine\.yml:3: guests\[1\]: is no guest: give its name, ssh and platform"),
        ("guests: [{name: a, ssh: b}]", r"mine\.yml:3: guests\[1\]\.ssh: say below it what the guest runs on"),
        (
            "guests: [{name: a b, ssh: b, platform: xen}, {name: a-b, ssh: c, platform: xen}]",
            r"mine\.yml:3: guests\[2\]: the name 'a-b' is taken",
        ),
        ("paths: [veth, bridges]", r"mine\.yml:3: paths\[2\]: 'bridges' is none; did you mean bridge\?"),
        ("directions: both", r"mine\.yml:3: directions: 'both' is none; there are send, receive"),
        ("sizes: [256, 8]", r"mine\.yml:3: sizes\[2\]: '8' is not a whole number from 16 to 1048576"),
        ("sizes: [256, 256]", r"mine\.yml:3: sizes\[2\]: 256 is there twice"),
        ("offloads: maybe", r"mine\.yml:3: offloads: 'maybe' is none"),
        ("duration: 1.5s", r"mine\.yml:3: duration: must be whole seconds"),
        ("warm_up: 0s", r"mine\.yml:3: warm_up: '0s' is not a time from 1s"),
        ("repetitions: 0", r"mine\.yml:3: repetitions: '0' is not a whole number"),
        ("path: veth", r"mine\.yml:3: path: "),
    ],
)
def test_a_mistake_is_refused_with_its_line_and_key(line: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(f"{VALID}{line}\n", "mine.yml")


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"mine\.yml:1: is empty; see docs/lab-network\.md"):
        parse("", "mine.yml")
