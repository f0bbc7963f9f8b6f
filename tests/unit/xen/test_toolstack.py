"""Toolstack values in a scrape and their domains: never of another domain, and never of an ended one."""

import math

from virtscope.toolkit.exposition import Encoder
from virtscope.xen import metrics
from virtscope.xen.continuity import Successors
from virtscope.xen.model import Domain, Host, Problem, Toolstack, Vcpu
from virtscope.xen.toolstack import ReplayedToolstack, Rounds, joined, parse
from virtscope.xen.xl import Answer, RawToolstack

UUIDS = ["00000000-0000-0000-0000-00000000000" + str(digit) for digit in range(10)]
LIST = "Name ID Mem VCPUs State Time(s)\nweb01 1 96 1 -b---- 1.0\n"


def answered(answers: dict[str, str], *complaints: Answer) -> RawToolstack:
    said = [Answer(command, text.encode(), "", False) for command, text in answers.items()]
    return RawToolstack("xl", (*said, *complaints))


def toolstack(*domains: tuple[int, str, float], weight: int | None = 256, cap: int = 0) -> Toolstack:
    return parse(answers(*domains, weight=weight, cap=cap))


def answers(
    *domains: tuple[int, str, float], weight: int | None = 256, cap: int = 0, uuid: int | None = None
) -> RawToolstack:
    """xl's answer about these domains, each given by id, name and CPU seconds."""
    rows = "".join(
        f"{name}  {domid}  96  1  -b----  {seconds:.1f} {UUIDS[domid if uuid is None else uuid]}  -  -  Pool-0\n"
        for domid, name, seconds in domains
    )
    shares = "".join(f"{name}  {domid}  {weight}  {cap}\n" for domid, name, _ in domains if weight)
    answered_by = {
        "list": f"Name  ID  Mem VCPUs State Time(s) UUID Reason-Code Security Label Cpupool\n{rows}",
        "sched-credit": f"Cpupool Pool-0: tslice=30ms ratelimit=1000us\nName ID Weight Cap\n{shares}",
        "info": "nr_cpus : 4\nxen_major : 4\nxen_minor : 17\n",
    }
    return answered(answered_by)


def host(*domains: tuple[int | None, str, float]) -> Host:
    plain = Domain(None, "", 0, 1, None, 0, frozenset(), (), (), ())
    shown = [
        plain._replace(domid=domid, name=name, cpu_seconds=seconds, vcpus=(Vcpu(True, seconds),))
        for domid, name, seconds in domains
    ]
    return Host(domains=tuple(shown))


def uuids(scraped: Host, by: Toolstack, age: float = math.inf) -> list[str]:
    """The last digit of each domain's uuid, "" if unknown."""
    return [guest.uuid[-1] if guest else "" for guest in joined(scraped, by, age).guests]


def test_weight_and_cap_are_shown_under_the_name_of_the_scrape() -> None:
    def page(scraped: Host) -> str:
        return Encoder().text(metrics.host_families(scraped)).decode()

    shown = page(joined(host((3, "renamed", 10)), toolstack((3, "web01", 10), weight=512, cap=50)))
    assert 'xen_domain_scheduler_weight{domain="renamed",domid="3"} 512' in shown
    assert 'xen_domain_cpu_limit_cpus{domain="renamed",domid="3"} 0.5' in shown
    assert "web01" not in shown
    shown = page(joined(host((3, "web01", 10)), toolstack((3, "web01", 10))))
    assert "xen_domain_cpu_limit_cpus{" not in shown, "no cap is no limit"
    assert "xen_domain_scheduler" not in page(host()), "without a toolstack, its own metrics are absent"


def test_ended_and_new_domains_have_no_values_and_a_counter_that_is_behind_is_another_domains() -> None:
    listed = toolstack((0, "Domain-0", 99), (3, "web01", 10))
    assert uuids(host((0, "Domain-0", 99), (4, "web01", 0)), listed) == ["0", ""]
    assert uuids(host((3, "other", 1)), toolstack((3, "web01", 100))) == [""]
    assert uuids(host((3, "web01", 101)), toolstack((3, "web01", 100))) == ["3"]
    assert uuids(host((3, "web01", 2e9)), toolstack((3, "web01", 2e9 + 128))) == ["3"]  # rounded by xl
    assert uuids(host((3, "web01", 101)), toolstack((3, "web01", 2**63 / 1e9 + 101))) == ["3"]  # an overflowed bit


def test_without_ids_unique_names_and_a_plausible_cpu_time_identify_domains() -> None:
    listed = toolstack((0, "Domain-0", 9), (3, "web01", 10), (4, "copy", 1), (5, "copy", 1), (6, "once", 1))
    scraped = host((0, "Domain-0", 9), (None, "web01", 10), (None, "copy", 1), (None, "once", 1), (None, "once", 1))
    assert uuids(scraped, listed) == ["0", "3", "", "", ""]
    listed = toolstack((3, "blue", 100), (4, "green", 5000))
    assert uuids(host((None, "blue", 5001), (None, "green", 101)), listed, age=30) == ["", ""]  # names may be swapped
    assert uuids(host((None, "blue", 130), (None, "green", 5030)), listed, age=30) == ["3", "4"]  # all busy meanwhile
    assert uuids(host((None, "blue", 131.5)), listed, age=30) == ["3"]  # also ahead of the toolstack's clock
    assert uuids(host((3, "green", 5001), (4, "blue", 5030)), listed, age=30) == ["3", "4"]  # ids are not swapped
    assert uuids(host((None, "web01", 0)), toolstack((3, "web01", 100))) == [""]  # a successor with the same name


def test_without_ids_a_young_guests_successor_has_nothing_of_it() -> None:
    """Both have used so little CPU time that either matches."""
    listed = toolstack((3, "web01", 3), (4, "db01", 3))
    before = host((None, "web01", 3), (None, "db01", 3))
    for gone in (host((None, "db01", 3)), before):  # either its absence was seen, or only its counter's restart
        successors = Successors()
        assert not successors.note(before, now=100)
        successors.note(gone, now=110)
        rebooted = host((None, "web01", 1), (None, "db01", 3))
        assert successors.note(rebooted, now=120)
        for now in (120, 130):
            successors.note(rebooted, now)
            passed_on = successors.since(moment=90)  # time of the toolstack's answer
            assert [bool(guest) for guest in joined(rebooted, listed, 30, passed_on).guests] == [False, True]
        assert successors.since(moment=125) == set()  # answered again
    successors = Successors()
    successors.note(host((3, "web01", 3)), now=100)
    assert not successors.note(host((4, "web01", 1)), now=110), "with ids no name is in doubt"


def test_the_toolstack_fills_in_what_the_source_does_not_report_of_the_host() -> None:
    filled = joined(host(), toolstack())
    assert (filled.cpus, filled.xen_version, filled.memory_bytes) == (4, "4.17", None)
    own = host()._replace(cpus=8, cpu_hertz=1, memory_bytes=2, memory_free_bytes=3)
    assert joined(own, toolstack()) == own._replace(xen_version="4.17")


def test_changes_are_counted_while_the_domain_lives() -> None:
    rounds = Rounds()

    def counted(now: RawToolstack) -> tuple[int, int]:
        guest = rounds.parse(now).guests[3]
        return guest.weight_changes, guest.cap_changes

    assert counted(answers((3, "web01", 0), weight=100)) == (0, 0)  # being created: it hasn't run yet
    assert counted(answers((3, "web01", 1))) == (0, 0)
    assert counted(answers((3, "web01", 2), weight=512)) == (1, 0)
    assert counted(answers((3, "renamed", 3), weight=512, cap=50)) == (1, 1)
    assert counted(answers((3, "renamed", 4), weight=256, cap=0)) == (2, 2)
    assert counted(answers((3, "renamed", 5), weight=None)) == (2, 2)
    assert counted(answers((3, "renamed", 6))) == (2, 2)
    assert counted(answers((3, "another", 0), weight=1, uuid=9)) == (0, 0)  # it has the same id


def test_a_replayed_round_that_is_shown_again_counts_once() -> None:
    replayed = ReplayedToolstack()
    first, second = answers((3, "web01", 1)), answers((3, "web01", 1), weight=512)
    assert replayed.parse(first) is replayed.parse(first)
    assert replayed.parse(second).guests[3].weight_changes == 1


def test_a_guests_type_and_its_system_in_its_own_words() -> None:
    long = b"Debian \xff" + b"!" * 4000
    for name, os in ((long, "Debian \\xff" + "!" * 89), (b"Windows 11|C:\\Windows", "Windows 11")):
        known = parse(answered({"list": LIST})._replace(os_names=((1, name), (9, b"dead"))))
        assert known.guests[1].os == os
    rows = f"Name ID Mem VCPUs State Time(s) UUID Reason-Code Security Label\nweb 1 96 1 -b---- 1.0 {UUIDS[1]} - -\n"
    for uuid, kind in ((UUIDS[1], "hvm"), (UUIDS[2], "")):  # the second one is an earlier domain's with this id
        details = f'[{{"domid": 1, "config": {{"c_info": {{"type": "hvm", "uuid": "{uuid}"}}}}}}]'
        assert parse(answered({"list": rows, "list -l": details})).guests[1].type == kind


def test_a_malformed_answer_costs_only_its_own_values() -> None:
    known = parse(
        answered(
            {"list": LIST, "list -l": "<html>", "cpupool-list": "what?\nelse?\n"},
            Answer("sched-credit", b"Name ID Weight Cap\nweb01 1 256 0\n", "libxl: something failed", False),
            Answer("vcpu-list", b"", "ended with status 1: no", True),
        )
    )
    assert known.guests[1].share.weight == 256
    assert {(problem.command, problem.reason) for problem in known.problems} == {
        ("sched-credit", "stderr"),
        ("vcpu-list", "error"),
        ("cpupool-list", "malformed"),
        ("list -l", "malformed"),
    }
    assert Problem("vcpu-list", "error", "ended with status 1: no") in known.problems
    assert Problem("cpupool-list", "malformed", "2 lines, of which the first is b'what?'") in known.problems
