"""What a dry run says of the scenarios that are shipped, and what the documentation says of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab import run, scenario, studies

ROOT = Path(__file__).resolve().parents[3]
NAMES = sorted(file.stem for file in scenario.FOLDER.glob("*.yml"))
MINUTES = {"min": 1, "minutes": 1, "h": 60, "hours": 60}


def documented(name: str) -> list[float]:
    """How many minutes docs/ says that a scenario takes, in its table and beside its command."""
    pages = [page.read_text() for page in (ROOT / "docs").glob("lab*.md")]
    patterns = (rf"(?m)^\| `{name}` \|.* \| ([\d.]+) (min|h) \|$", rf"SCENARIO={name} +# ([\d.]+) (minutes|hours)")
    return [
        float(number) * MINUTES[unit]
        for page in pages
        for pattern in patterns
        for number, unit in re.findall(pattern, page)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_it_takes_as_long_as_the_documentation_says(name: str) -> None:
    [line] = re.findall(r"(?m)^\d+ steps, about (.+):$", "\n".join(run.plan(studies.load(scenario.find(name)))))
    planned = sum(float(number) * MINUTES[unit] for number, unit in re.findall(r"(\d+) (min|h)", line))
    said = documented(name)
    assert said
    for minutes in said:
        assert minutes == pytest.approx(planned, rel=0.05, abs=1)


def test_a_dry_run_ends_quietly_once_nobody_reads_it() -> None:
    command = [sys.executable, "-m", "lab", "run", "--dry-run", "allocation"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as dry:
        assert dry.stdout is not None
        assert dry.stderr is not None
        dry.stdout.close()
        assert dry.stderr.read() == ""
    assert dry.returncode == 0
