"""The lab's benchmark suites and influence factors over ssh in a guest of a real Xen, and on the machine below it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

import pytest

from lab.environments import Guest
from lab.suites.programs import PROGRAMS, SkippedError
from lab.suites.scenario import parse
from tests.lab.conftest import require_cgroups
from tests.lab.runs import finished_steps, lab, running_stack, start
from tests.stack.conftest import Checkout
from tests.xen.benchmark_guest import LMBENCH, NAME, guest_in
from tests.xen.host import XenHost

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # the first test also builds and boots

GUEST = Guest("guest", NAME, "xen", emulated=True)
ENVIRONMENT = f"{{name: guest, ssh: {NAME}, platform: xen, emulated: true}}"
SUITES = f"""\
study: suites
about: As short as may be, in a guest of an emulated Xen.
suites: [lmbench, stress-ng, nbench]
environments: [base, {ENVIRONMENT}]
repetitions: 1
settle: 0s
megabytes: 4
interval: 0.001s
stress_time: 10s
"""
FACTORS = f"""\
study: factors
about: Computing in a guest of an emulated Xen.
workloads: cpu
factors: virtualisation
cpus: 1
guests: [{ENVIRONMENT}]
duration: 10s
warm_up: 5s
repetitions: 1
"""
TESTS = 40 + 7  # of lmbench and stress-ng
RUN_SECONDS = 3000
TRIES = 3
# What the lab says of a guest that stood still for too long, as an emulated one does on a busy machine.
STARVED = re.compile(r"wasn't done |gives events per second \d times")


@pytest.fixture(scope="module")
def checkout(xen: XenHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """A checkout with the stack running in it, and an ssh that reaches the guest, which has the host to itself."""
    with xen.paused(), guest_in(xen, tmp_path_factory.mktemp("ssh")) as ssh, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{ssh}:{os.environ['PATH']}")
        with running_stack(tmp_path_factory.mktemp("s"), SUITES) as checkout:
            (checkout.folder / "factors.yml").write_text(FACTORS)
            yield checkout


def carry_out(checkout: Checkout, scenario: str) -> tuple[str, str]:
    """What a run says, and its report."""
    before = set(lab(checkout, "runs").glob("*"))
    for _ in range(TRIES):  # the lab goes on with the step that failed
        with start(checkout, scenario) as run:
            said, _ = run.communicate(timeout=RUN_SECONDS)
        if not STARVED.search(said):
            break
    assert run.returncode == 0, said
    [folder] = set(lab(checkout, "runs").glob("*")) - before
    return said, (lab(checkout, "reports") / folder.name / "report.md").read_text()


def test_suites_run_in_the_guest_and_its_values_are_marked_as_emulated(
    checkout: Checkout, report: Callable[[str], None]
) -> None:
    said, written = carry_out(checkout, "short.yml")
    assert said.count("nbench is skipped: no distribution packages it; give the folder of a copy") == 1
    assert set(finished_steps(checkout)[-1]) == {
        f"{environment}-{suite}-1" for environment in ("base", "guest") for suite in ("lmbench", "stress-ng")
    }

    of = ("environment", "virtualization", "emulated")
    counted = checkout.query(f"count by ({', '.join(of)}) (last_over_time(lab_measurement[2h]))")
    number = {tuple(one["metric"][label] for label in of): int(one["value"][1]) for one in counted}
    assert number.keys() == {("base", "none", "no"), ("guest", "xen", "yes")}
    assert number["base", "none", "no"] == TESTS
    # On a busy machine, emulated context switches are hidden by what is subtracted as their overhead: no value.
    assert number["guest", "xen", "yes"] > 0.7 * TESTS

    assert (
        "guest is emulated, which costs more than any platform: its values show that it works, and nothing else"
        in written
    )
    for suite in ("lmbench", "stress-ng"):
        [sentence] = re.findall(rf"guest \(emulated\): {suite}'s \d+ tests? reach [\d.]+ of base's", written)
        report(sentence)
    assert "| fork proc | µs | lower | guest (emulated) | " in written
    assert "not complete" not in written
    assert GUEST.run(["ls", "/var/tmp"], timeout=60) == "empty\n"  # nothing of the suites has stayed


@pytest.mark.usefixtures("checkout")
def test_what_the_guest_lacks_is_named() -> None:
    GUEST.run(["mv", LMBENCH, f"{LMBENCH}-elsewhere"], timeout=60)
    try:
        with pytest.raises(SkippedError, match=r"install Debian's package lmbench \(non-free\) in the guest"):
            PROGRAMS["lmbench"].find(parse(SUITES, "short.yml"), GUEST)
    finally:
        GUEST.run(["mv", f"{LMBENCH}-elsewhere", LMBENCH], timeout=60)


def test_factors_are_measured_in_the_guest_and_marked_as_emulated(
    checkout: Checkout, report: Callable[[str], None]
) -> None:
    require_cgroups()
    said, written = carry_out(checkout, "factors.yml")
    assert set(finished_steps(checkout)[-1]) == {"cpu-base-1", "cpu-1on1-pinned-1", "cpu-guest-1"}
    [line] = re.findall("^cpu-guest-1: .*", said, re.MULTILINE)
    report(line)
    [value] = checkout.query('last_over_time(lab_measurement{test="cpu", environment="guest", emulated="yes"}[2h])')
    assert float(value["value"][1]) > 0
    assert "On emulated hardware, so no more than a sign that it works. In guest (xen, emulated): cpu " in written
