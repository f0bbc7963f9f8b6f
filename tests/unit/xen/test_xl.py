"""The toolstack commands that are run, and the effect of failures."""

from pathlib import Path

import pytest

from tests.support.refusals import assert_refused
from tests.support.waiting import wait_for
from tests.unit.xen.fake_programs import FakeXl
from virtscope.toolkit import collect
from virtscope.toolkit.bounded import Commands, Finished
from virtscope.toolkit.collect import SourceError, SourceTimeout, SourceUnavailable
from virtscope.xen import xenstore, xl
from virtscope.xen.model import Domain, Host
from virtscope.xen.toolstack import ToolstackPoller, parse
from virtscope.xen.xl import Xl

REAL = Path(__file__).resolve().parents[2] / "fixtures/toolstack/xl-4.17-credit"
LISTED = (REAL / "list -v").read_text()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeXl:
    fake = FakeXl(tmp_path, REAL)
    monkeypatch.setenv("PATH", fake.path)
    monkeypatch.setenv("XENSTORED_PATH", str(tmp_path / "no-socket"))
    monkeypatch.setattr(xl, "_FOLDERS", ())
    return fake


def test_a_round_asks_only_the_schedulers_in_use(fake: FakeXl) -> None:
    commands = ["list", "info", "cpupool-list", "list -l", "vcpu-list", "sched-credit"]
    assert [answer.command for answer in Xl().read().answers] == commands
    second_pool = "fast                 1   credit2       y          0\n"
    fake.answer("cpupool-list", (REAL / "cpupool-list").read_text() + second_pool)
    fake.answer("sched-credit2", "")
    assert {"sched-credit", "sched-credit2"} <= {answer.command for answer in Xl().read().answers}


def test_details_are_asked_again_only_for_new_domains_and_not_for_ever(fake: FakeXl) -> None:
    everything = (REAL / "list -l").read_text()
    fake.answer("list -l", "[]")  # a domain that is being created
    source = Xl()
    assert parse(source.read()).guests[1].type == ""
    fake.answer("list -l", everything)
    assert parse(source.read()).guests[1].type == "pv"
    fake.asked()
    assert parse(source.read()).guests[1].type == "pv"
    assert "list -l" not in fake.asked()
    fake.answer("list -l", "[]")
    fake.answer("list -v", LISTED.replace("586d02b6", "00000000"))  # another toolstack's domain
    for _ in range(9):
        source.read()
    assert fake.asked().count("list -l") == xl.ASK_DETAILS


def test_cache_monitoring_is_asked_for_again_only_where_there_is_any(fake: FakeXl) -> None:
    source = Xl()
    assert parse(source.read()).problems == ()
    assert "psr-cmt-show cache-occupancy" in fake.asked()
    source.read()
    assert not [command for command in fake.asked() if command.startswith("psr")]
    fake.answer("psr-cmt-show cache-occupancy", "Total RMID: 71\nName  ID  Socket 0\nweb01   1   2592 KB\n")
    source = Xl()
    for _ in range(2):
        assert parse(source.read()).guests[1].cache_bytes == {0: 2592 * 1024}


def test_commands_that_a_version_does_not_know_are_no_problem_and_others_that_fail_are(fake: FakeXl) -> None:
    (fake.answers / "cpupool-list").unlink()
    source = Xl()
    assert [parse(source.read()).problems for _ in range(2)] == [(), ()]
    assert fake.asked().count("cpupool-list") == 1
    fake.complain("cpupool-list", "libxl: error: Cannot get pools\n")
    source = Xl()
    for _ in range(2):  # it is called again
        assert [problem.command for problem in parse(source.read()).problems] == ["cpupool-list"]
    fake.complain("sched-credit", "libxl_domain_sched_params_get failed.\n")
    problem = ("sched-credit", "stderr", "libxl_domain_sched_params_get failed.")
    assert problem in parse(Xl().read()).problems


@pytest.mark.usefixtures("fake")
def test_a_guest_names_its_system_once_and_a_refusing_xenstore_costs_only_the_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named: dict[str, bytes] = {}
    monkeypatch.setattr(xenstore, "read_values", lambda paths: [named.get(path) for path in paths])
    source = Xl()
    assert source.read().os_names == ()
    for name in (b"Debian 12", b"something new for each scrape"):
        named["/local/domain/1/data/os_name"] = name
        assert source.read().os_names == ((1, b"Debian 12"),)

    def refuse(_paths: object) -> None:
        raise SourceError("XenStore refuses: EACCES")

    monkeypatch.setattr(xenstore, "read_values", refuse)
    known = parse(Xl().read())
    assert known.guests[1].share.weight == 256
    assert known.problems == (("xenstore", "error", "XenStore refuses: EACCES"),)


def test_xm_where_there_is_no_xl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "answers").mkdir()
    fake = FakeXl(tmp_path, tmp_path / "answers", "xm")
    fake.answer("list", "Name   ID   Mem VCPUs      State   Time(s)\nDomain-0   0  512  1  r-----  9.5\n")
    monkeypatch.setenv("PATH", fake.path)
    raw = Xl().read()
    assert (Path(raw.program).name, parse(raw).guests[0].name) == ("xm", "Domain-0")
    assert not [command for command in fake.asked() if command.startswith("psr")]


def test_an_xl_that_moved_is_found_again(fake: FakeXl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade of Xen's tools may move it while unpacking."""
    source = Xl()
    source.read()
    program = FakeXl(tmp_path / "newer", REAL).folder / "xl"
    whole = program.read_bytes()
    program.unlink()
    (fake.folder / "xl").unlink()
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert_refused(SourceUnavailable, "fake-xl/xl is not there", source.read)
    program.write_bytes(b"")
    program.chmod(0o755)
    assert_refused(SourceError, "newer/fake-xl/xl can't be started: Exec format error", source.read)
    program.write_bytes(whole)
    for _ in range(2):
        assert source.read().program == source.program == str(program)


def test_an_xl_that_refuses_hangs_or_is_absent_is_named(fake: FakeXl, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.complain("list -v -c", "Could not obtain handle on privileged command interface: Permission denied\n")
    (fake.answers / "list -v").unlink()
    assert_refused(SourceError, "list -v -c ended with status 1: .*Permission denied", Xl().read)
    monkeypatch.setattr(xl, "TIMEOUT", 0.5)
    fake.hang("list -v -c")
    assert_refused(SourceTimeout, "list -v -c did not end", Xl().read)
    monkeypatch.setenv("PATH", str(fake.folder.parent))
    assert_refused(SourceUnavailable, "neither xl nor xm", Xl().read)


def test_a_locked_domain_does_not_cost_the_others_values(fake: FakeXl, monkeypatch: pytest.MonkeyPatch) -> None:
    """`xl list -l` waits for each domain's lock."""
    patient, impatient = Commands(xl.TIMEOUT), Commands(0.5)
    run = patient.run
    source = Xl(patient)
    source.read()

    def run_with_less_patience(program: str, *arguments: str) -> Finished:
        """Only for the hanging call: on a busy machine, others take longer."""
        return (impatient.run if arguments == ("list", "-l") else run)(program, *arguments)

    monkeypatch.setattr(patient, "run", run_with_less_patience)
    fake.hang("list -l")
    fake.answer("list -v", LISTED.replace("586d02b6", "00000000"))
    known = parse(source.read())
    assert (known.guests[1].share.weight, known.guests[2].type) == (256, "pv")
    assert [(problem.command, problem.reason) for problem in known.problems] == [("list -l", "error")]


@pytest.mark.usefixtures("fake")
def test_after_a_reboot_a_guest_without_id_is_shown_when_the_toolstack_was_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collect, "REST", 0.05)
    name = "app-server-with-a-rather-long-name"

    def is_shown(seconds: float) -> bool:
        guest = Domain(None, name, seconds, 1, None, 0, frozenset(), (), (), ())
        return any(poller.add_to(Host(domains=(guest,))).guests)

    poller = ToolstackPoller(600)  # polls once, and then only when it is woken
    with poller.background:
        wait_for(lambda: poller.background.peek() is not None)
        toolstack = poller.background.latest()
        used = next(guest.cpu_seconds for guest in toolstack.guests.values() if guest.name == name)
        assert is_shown(used)
        asked = poller.background.cost.reads
        assert not is_shown(used - 0.5)  # CPU time that would match the previous domain
        wait_for(lambda: poller.background.cost.reads > asked)
        wait_for(lambda: is_shown(used - 0.5))
