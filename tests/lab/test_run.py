"""The smoke on real instances with `make lab`'s command: killed in the middle, resumed, interrupted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.lab.conftest import require_servers
from tests.lab.runs import Study, left, survive, values
from tests.stack.conftest import Checkout
from tests.telegraf.agent import telegraf

SMOKE = Study(
    """\
about: Two steps, as short as may be.
instances: 1
clients: [2, 3]
duration: 15s
warm_up: 1s
calibration: 0s
think_time: 0.2s
""",
    steps={"1x2-1", "1x3-1"},
    first=["1x2-1"],
    shown="1x2-1: 1 instance with 2 clients each",
    works="/auction-1-web",
    cgroups="auction-1-*",
)
pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # Telegraf is built first if it isn't in the cache


@pytest.fixture(scope="module")
def scenario() -> str:
    """Skips without the application's servers."""
    require_servers()
    telegraf()
    return SMOKE.scenario


def test_a_run_survives_being_killed_and_leaves_nothing_when_interrupted(checkout: Checkout) -> None:
    name = survive(checkout, SMOKE, run_seconds=120)
    steps = values(checkout, f'count by (step) (count_over_time(lab_step_info{{run="{name}"}}[10m]))', "step")
    assert steps.keys() == SMOKE.steps


def test_a_scenario_with_a_mistake_starts_nothing(checkout: Checkout) -> None:
    stack = set(checkout.processes())
    (checkout.folder / "wrong.yml").write_text(SMOKE.scenario.replace("warm_up", "warmup"))
    command = [sys.executable, "-m", "lab", "run", "wrong.yml"]
    run = subprocess.run(
        command, cwd=checkout.folder, env=checkout.environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr == "error: wrong.yml:5: warmup: no such key; did you mean warm_up?\n"
    assert left(checkout, stack, SMOKE.cgroups) == []
