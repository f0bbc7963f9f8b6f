"""Scenarios of all studies: their steps, their durations, and messages about mistakes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.programs import CHECKOUT
from lab import run, scenario
from lab.allocation import switching
from lab.allocation.scenario import Allocation, Elsewhere
from lab.allocation.scenario import Guest as Switched
from lab.controller.scenario import Controller
from lab.environments import Base, Guest, Limited
from lab.factors.scenario import FACTORS, Case, Factors
from lab.keys import Scenario, ScenarioError
from lab.network import experiment
from lab.network.scenario import Network
from lab.network.scenario import parse as parse_name
from lab.scenario import Consolidation, Limit
from lab.suites.scenario import Suites
from tests.support.refusals import assert_refused

SHIPPED = sorted(file.stem for file in scenario.FOLDER.glob("*.yml"))
MINUTES = {"min": 1, "minutes": 1, "h": 60, "hours": 60}

SITES = "about: Two sites, one with less.\ninstances: [1, 2]\nclients: [500, 800]\nduration: 2m\n"
SWITCHED = """\
study: allocation
about: Two containers, and four.
magnitudes: [[0.2, 0.8], [0.1, 0.4]]
intervals: [6s, 30s]
"""
OF_TWO = SWITCHED.replace("[[0.2, 0.8], [0.1, 0.4]]", "[[0.2, 0.8]]")
TARGET = """\
target:
  platform: xen
  host: root@xen1
  guests: [{name: web1, ssh: root@web1}, db 1]
"""
AT = "{{platform: xen, host: {}, guests: [a, b]}}"
CASES = "study: factors\nabout: Does pinning help?\ncpus: 4\n"
GUESTS = "guests: [{name: a guest, ssh: root@web1, platform: xen, emulated: true}]\n"
PATHS = "study: network\nabout: What does a bridge cost?\n"
VETH = PATHS + "paths: [loopback, veth]\ndirections: send\nsizes: 256\noffloads: on\n"
LOADS = "study: controller\nabout: Two sites that change places.\nloads: [[0.45, 0.1], [0.1, 0.45]]\n"
SUITES = "study: suites\nabout: Here and in a cgroup.\nenvironments: [base, {name: capped, cap: 0.5}]\n"


def documented(name: str) -> list[float]:
    """The minutes that docs/ gives for a scenario, in its table and next to its command."""
    pages = [page.read_text() for page in (CHECKOUT / "docs").glob("lab*.md")]
    patterns = (rf"(?m)^\| `{name}` \|.* \| ([\d.]+) (min|h) \|$", rf"SCENARIO={name} +# ([\d.]+) (minutes|hours)")
    found = [(page, pattern) for page in pages for pattern in patterns]
    return [float(number) * MINUTES[unit] for page, pattern in found for number, unit in re.findall(pattern, page)]


def test_shipped_ones_are_valid_and_take_as_long_as_the_documentation_says() -> None:
    for name in SHIPPED:
        study, shipped = run.load(scenario.find(name))
        assert shipped.name == name
        assert len({step.name for step in shipped.steps}) == len(shipped.steps)
        assert study is run.CONSOLIDATION or shipped.repetitions == 5, "enough for an interval"
        [line] = re.findall(r"(?m)^\d+ steps, about (.+):$", "\n".join(run.plan(study, shipped)))
        planned = sum(float(number) * MINUTES[unit] for number, unit in re.findall(r"(\d+) (min|h)", line))
        said = documented(name)
        assert said, name
        assert said == pytest.approx([planned] * len(said), rel=0.05, abs=1), name


# A scenario, and its steps from a number on.
STEPS: tuple[tuple[Callable[[str, str], Scenario], str, int, tuple[str, ...]], ...] = (
    (
        Consolidation.parse,
        SITES + "placement: [one node, two nodes]\n",
        0,
        ("1x500-1", "1x800-1", "2x500-1", "2x800-1"),
    ),
    (Consolidation.parse, SITES + "placement: [one node, two nodes]\n", 4, ("two-nodes-1x500-1",)),
    (Consolidation.parse, SITES + "repetitions: 2\n", 4, ("1x500-2",)),
    (Consolidation.parse, SITES + "batch: [none, running]\n", 1, ("batch-running-1x500-1",)),
    (Consolidation.parse, SITES + "batch: throttled\ndisk: 0.002s\n", 0, ("batch-throttled-1x500-1",)),
    (Allocation.parse, SWITCHED, 0, ("2xstatic-6s-1", "2xcontrol-6s-1", "2x0.2-0.8-6s-1", "2xstatic-30s-1")),
    (Allocation.parse, SWITCHED + "pinning: [unpinned, pinned]\n", 12, ("pinned-2xstatic-6s-1",)),
    # Another one is the first in each repetition.
    (Allocation.parse, SWITCHED, 12, ("2xcontrol-6s-2", "2x0.2-0.8-6s-2", "2xstatic-6s-2")),
    (Network.parse, VETH, 0, ("loopback-send-256-offloads-on-1", "veth-send-256-offloads-on-1")),
    (Network.parse, VETH, 2, ("veth-send-256-offloads-on-2", "loopback-send-256-offloads-on-2")),
    (Network.parse, VETH + "web_rates: 50\n", 2, ("loopback-web-1024-50-1", "loopback-web-131072-50-1")),
    (
        *(Network.parse, PATHS + f"paths: veth\nsizes: 256\nweb_rates: 50\n{GUESTS}", 4),
        ("guest-a-guest-send-256-offloads-unchanged-1", "guest-a-guest-receive-256-offloads-unchanged-1"),
    ),
    (Controller.parse, LOADS, 0, ("none-1", "equal-1", "predicted-1", "equal-2", "predicted-2", "none-2")),
    (Controller.parse, LOADS + "caps: predicted\n", 0, ("predicted-1", "predicted-2")),
    # A suite without a copy has none.
    (Suites.parse, SUITES, 0, ("base-lmbench-1", "base-stress-ng-1", "capped-lmbench-1", "capped-stress-ng-1")),
    (Suites.parse, SUITES, 4, ("capped-lmbench-2", "capped-stress-ng-2", "base-lmbench-2")),
    (Suites.parse, SUITES + "nbench: /opt/nbench\n", 1, ("base-nbench-1", "base-stress-ng-1")),
)


def test_steps_run_one_after_the_other() -> None:
    for parse, text, first, names in STEPS:
        steps = parse(text, "mine.yml").steps
        assert tuple(step.name for step in steps[first : first + len(names)]) == names


def test_limits_of_one_server_come_before_those_of_its_tier() -> None:
    parsed = Consolidation.parse(SITES + "limits: {web: {weight: 200}, auction-2-web: {cap: 0.2}}\n", "mine.yml")
    found = [parsed.limit(*of) for of in (("auction-1", "web"), ("auction-2", "web"), ("auction-2", "db"))]
    assert found == [Limit(weight=200, cap=None), Limit(cap=0.2), Limit()]


def test_they_are_found_by_name_and_by_path_and_say_which_study_they_are(tmp_path: Path) -> None:
    assert_refused(ScenarioError, r"no scenario 'sclae' .*; did you mean scale\?", scenario.find, "sclae")
    mine = tmp_path / "mine.yml"
    assert_refused(ScenarioError, r"mine\.yml: no such file", scenario.find, str(mine))
    mine.write_text(SITES)
    found = run.load(scenario.find(str(mine)))[1]
    assert (found.name, found.steps) == ("mine", Consolidation.parse(SITES, "mine.yml").steps)
    assert found.digest != Consolidation.parse(SITES + "seed: 2\n", "mine.yml").digest
    mine.write_bytes(b"about: \xff\n")
    assert_refused(ScenarioError, "is not UTF-8", run.load, mine)
    mine.write_text(SWITCHED.replace("allocation", "allocations"))
    words = "mine.yml:1: study: there is no study 'allocations'; did you mean allocation?; without this key"
    assert_refused(ScenarioError, re.escape(words), run.load, mine)


def test_guests_of_another_host_and_each_host_of_a_list_has_a_run() -> None:
    of_one = Allocation.parse(OF_TWO + TARGET, "mine.yml")
    guests = (Switched(name="web1", ssh="root@web1"), Switched(name="db 1"))
    assert of_one.target == Elsewhere(platform="xen", host="root@xen1", guests=guests)
    assert [each.name for each in of_one.runs] == ["mine"]
    emulated = Allocation.parse(OF_TWO + TARGET + "  emulated: true\n", "mine.yml").target
    assert emulated == of_one.target.model_copy(update={"emulated": True})
    hosts = f"target: [{AT.format('root@xen1')}, {AT.format('ssh://root@kvm1:22')}]\n"
    what = Allocation.parse(OF_TWO + hosts, "mine.yml")
    assert [(each.name, each.target and each.target.host, each.steps) for each in what.runs] == [
        ("mine-xen1", "root@xen1", what.steps),
        ("mine-kvm1-22", "ssh://root@kvm1:22", what.steps),
    ]
    on = [line for line in switching.plan(what) if line.startswith("On ")]
    assert on == ["On root@xen1, over ssh:", "On ssh://root@kvm1:22, over ssh:"]


def test_each_factor_is_a_few_cases_that_differ_in_it_alone() -> None:
    found = Factors.parse(CASES + "caps: 0.5\novercommit: [2, 3]\n" + GUESTS, "mine.yml")
    of_4, one = "on 4 CPUs,", "1 server on 1 CPU, pinned"
    assert {factor: [case.name for case in found.cases(factor, "cpu")] for factor in FACTORS} == {
        "virtualisation": ["base", one, "guest a guest"],
        "servers": [f"{n} server{'s' if n > 1 else ''} {of_4} free" for n in (1, 2, 3, 4)],
        "overcommit": [f"{n} servers {of_4} free" for n in (4, 8, 12)],
        "affinity": [f"{servers} {of_4} {how}" for servers in ("1 server", "4 servers") for how in ("free", "pinned")],
        "spare core": [f"4 servers {of_4} pinned", f"3 servers {of_4} pinned"],
        "weights": [one, "2 servers on 1 CPU, pinned, weights 100:300"],
        "caps": [one, f"{one}, cap 0.5"],
    }
    single = Factors.parse(CASES.replace("4", "1") + "factors: [overcommit]\n", "mine.yml")
    names = [case.name for case in single.cases("overcommit", "cpu")]
    assert names[:2] == ["1 server on 1 CPU, free", "2 servers on 1 CPU, free"]


def test_a_case_of_several_factors_is_measured_once_and_none_is_always_the_first() -> None:
    found = Factors.parse(CASES + "repetitions: 2\nworkloads: cpu\n", "mine.yml")
    first, second = ([step for step in found.steps if step.repetition == number] for number in (1, 2))
    assert len({step.case for step in first}) == len(first)
    assert {step.case for step in first} == {step.case for step in second}
    assert second[-1].case == first[0].case
    assert first[0].name == "cpu-base-1"
    of_disk = Factors.parse(CASES + "workloads: disk\nrepetitions: 1\n" + GUESTS, "mine.yml")  # what doesn't compute
    cases = ("base", "1 server on 1 CPU, pinned", *(case.name for case in of_disk.cases("servers", "disk")))
    assert {step.case.name for step in of_disk.steps} == set(cases)


def test_the_name_of_a_case_says_all_of_it() -> None:
    many = Case(3, 4, weights=(1, 10_000, 7), cap=0.125)
    for case in (Case(), Case(8, 2, pinned=False), Case(2, weights=(100, 300)), Case(cap=0.05), many):
        assert Case.parse(case.name) == case
    places = [Case(4, 2).places([6, 7]), Case(3, 4).places([4, 5, 6, 7]), Case(2, 4, pinned=False).places([4, 5])]
    assert places == [["6", "7", "6", "7"], ["4", "5", "6"], ["4,5", "4,5"]]
    for name in ("base", "a guest", "4 servers", "2 servers on 1 CPU, pinned, weights 100:300, server 1"):
        assert Case.parse(name) is None


def test_each_configuration_of_a_network_is_read_from_its_name_and_the_plan_names_its_commands() -> None:
    parsed = Network.parse(f"{PATHS}web_rates: 50\n{GUESTS}", "mine.yml")
    for step in parsed.steps:
        assert parse_name(step.configuration.name) == step.configuration
    assert parse_name("tap, send, 256 bytes, offloads on") is None
    plan = "\n".join(experiment.plan(parsed))
    for command in (
        "  veth: ip link add eth0 netns server type veth peer name eth0 netns client",
        "  at their ends iperf3, nginx, and vegeta at 50 requests/s",
        "On root@web1, at the address where ssh reaches it: iperf3 --server on ports 5201 and 5202, nginx on port ",
    ):
        assert command in plan


def test_an_environment_of_suites_is_the_machine_a_cgroup_or_a_guest() -> None:
    guest = "{name: web, ssh: root@web1, platform: xen, emulated: true}"
    text = SUITES.replace("cap: 0.5}", "cap: 0.5, weight: 50}, {name: light}, " + guest)
    base, capped, light, web = Suites.parse(text, "mine.yml").environments
    assert (base, capped) == (Base(), Limited(name="capped", cap=0.5, weight=50))
    assert light == Limited(name="light", weight=100)
    assert web == Guest(name="web", ssh="root@web1", platform="xen", emulated=True)
    assert Suites.parse(SUITES, "mine.yml").cpus.isdecimal()


# A scenario, an addition to it, and the message. Keys that all studies share are tried with the first.
ADDED = {
    (Consolidation.parse, SITES): (
        ("warm_up: 20\n", "5: warm_up: must be a time, such as 90s or 2m, not '20'"),
        ("repetitions: 101\n", "5: repetitions: should be less than or equal to 100, not '101'"),
        ("placement:\n- one node\n- one node\n", "7: placement[2]: one node is there twice; to run it again, use rep"),
        ("batch: [none, run]\n", "5: batch[2]: should be 'none', 'running', 'throttled' or 'stopped', not"),
        ("batch: throttled\n", "5: batch: only a job that reads a disk can be throttled: add disk, such as 0.001s"),
        ("disk: 1s\n", "5: disk: should be less than or equal to 0.1, not '1s'"),
        ("placement: []\n", "5: placement: Value should have at least 1 item"),
        ("limits: {wab: {}}\n", "5: limits.wab: no such key; did you mean web?"),
        ("limits: {web: {cap: 0.01}}\n", "5: limits.web.cap: should be greater than or equal to 0.05, not '0.01'"),
        ("limits:\n  auction-3-db: {}\n", "6: limits.auction-3-db: no such instance runs: there are at most 2"),
        ("study: consolidation\n", "5: study: no such key"),
    ),
    (Allocation.parse, SWITCHED): (
        ("duration: 59s\n", "5: duration: 59 s are too short for switches every 30 s: give at least 60s"),
        ("duration: 90.5s\n", "5: duration: should be a valid integer, got a number with a fractional part, not"),
        (TARGET, "3: magnitudes[2]: is of 4 containers, but root@xen1 has 2 guests"),
    ),
    (Allocation.parse, OF_TWO): (
        (TARGET.replace("xen\n", "xem\n"), "6: target.platform: should be 'xen', 'openvz' or 'kvm', not 'xem'"),
        (TARGET.replace(", db 1", ""), "3: magnitudes[1]: is of 2 containers, but root@xen1 has 1 guests"),
        (TARGET.replace("db 1", "web1"), "8: target.guests[2]: web1 is there twice"),
        (TARGET.replace("db 1", "-c"), "8: target.guests[2]: '-c' is no name: it must be printable, and not begin"),
        (TARGET.replace("db 1", r'"a\nb"'), r"8: target.guests[2]: 'a\nb' is no name: it must be printable, and"),
        (f"target: [{AT.format('a@xen')}, {AT.format('xen')}]\n", "5: target[2]: xen is there twice"),
        (f"{TARGET}pinning: pinned\n", "9: pinning: is of cgroups: guests keep their pinning, and run"),
        (f"{TARGET}load: computational\n", "9: load: is of cgroups: guests keep their pinning, and run the"),
    ),
    (Factors.parse, CASES): (
        ("workloads: [disk]\nfactors: [caps]\n", "5: factors: none of them acts on disk: take virtualisation or"),
        ("weights: [100, 100]\n", "4: weights[2]: 100 is there twice"),
    ),
    (Network.parse, PATHS): (
        (f"{GUESTS[:-2]}, {{name: a-guest, ssh: c, platform: xen}}]\n", "3: guests[2]: a-guest is there twice"),
    ),
    (Suites.parse, SUITES): (
        ("megabytes: 100\n", "4: megabytes: 100 is not a power of two, as lmbench's sizes are"),
        ("cpus: all\n", "4: cpus: should match pattern "),
    ),
}
# A part of a scenario, its replacement, and the message.
REPLACED = {
    (Consolidation.parse, SITES): (
        ("2m", "2 h", "4: duration: must be a time, such as 90s or 2m, not '2 h'"),
        ("[1, 2]\nclients: [500, 800]", "32\nclients: 10000", "3: clients: 10000 for each of 32 instances are 320000"),
    ),
    (Allocation.parse, OF_TWO): (
        ("0.2, 0.8", "0.5, 0.5", "3: magnitudes[1]: the first cap must be the smaller one; equal"),
        ("0.2, 0.8", "0.01, 0.99", "3: magnitudes[1]: 0.01 is less than the smallest cap, 0.05"),
        ("0.8]", "0.8], [0.2, 0.7]", "3: magnitudes[2]: caps of two containers add up to 1, those"),
        ("0.8]", "0.8], [0.2, 0.8]", "3: magnitudes[2]: (0.2, 0.8) is there twice; to run it again, use"),
        ("30s", "200s", "4: intervals: 360 s are too short for switches every 200 s: give at"),
    ),
    (Allocation.parse, OF_TWO + TARGET): (
        ("0.2, 0.8", "0.333, 0.667", "3: magnitudes[1]: caps of xen are whole percent of a CPU, such as 0.25"),
    ),
    (Factors.parse, CASES): (
        ("4", "1", "3: cpus: affinity needs at least two CPUs; leave it out of factors"),
        ("4\n", "64\novercommit: 16\n", "4: overcommit: 1024 virtual servers at the largest over"),
    ),
    (Controller.parse, LOADS): (
        ("[0.1, 0.45]", "[0.1]", "3: loads[2]: every phase needs one load for each site, 1 to 8"),
        ("[0.1, 0.45]", "[0.5, 0.45]", "3: loads[2]: 0.95 CPUs exceed 0.9, the most for all sites together"),
        (
            "[0.1, 0.45]]",
            "[0.1, 0.45]]\nphase: 30s\ninterval: 20s",
            "4: phase: 30 s are not two or more intervals of 20 s",
        ),
        ("[0.1, 0.45]]", "[0.1, 0.45]]\ncaps: few", "4: caps: should be 'none', 'equal' or 'predicted', not 'few'"),
    ),
    (Suites.parse, SUITES): (
        ("base, {", "{", "3: environments: base is missing, with which all others are compared: add"),
        ("base, {", "base, base, {", "3: environments[2]: base is there twice; to run it again, use"),
        ("base, ", "hase, ", "3: environments[1]: 'hase' is not base; others have keys, such as {name: capped, cap:"),
        ("cap: 0.5", "emulated: true", "3: environments[2].emulated: no such key; there are name, cap, weight"),
        ("cap: 0.5", "ssh: b, platform: kvm, cap: 1", "3: environments[2].cap: no such key; there are name, ssh, plat"),
    ),
}


def test_mistakes_are_named_with_line_key_and_what_would_be_right() -> None:
    tried = [(parse, valid, valid + text, message) for (parse, valid), rows in ADDED.items() for text, message in rows]
    for (parse, valid), rows in REPLACED.items():
        tried += [(parse, valid, valid.replace(was, becomes, 1), message) for was, becomes, message in rows]
    for parse, valid, text, message in tried:
        parse(valid, "mine.yml")
        assert text != valid
        assert_refused(ScenarioError, f"^mine.yml:{re.escape(message)}", parse, text, "mine.yml")
