"""Asks advise before a move, as a user does."""

import importlib.util
import json
import subprocess
import sys
from typing import Any, NamedTuple

from lab.cgroups import PARENT
from lab.servers.instance import TIERS
from tests.proofs import CHECKOUT
from tests.proofs.placements.judgement import candidates

SECONDS = 60
_PROGRAM = "advise"
_PAST = "3h"  # at least the whole run


class Answer(NamedTuple):
    """A document, or the reason why there is none."""

    document: dict[str, Any] | None
    lacking: str


def ask(site: str, prometheus_url: str, present_seconds: float) -> Answer:
    """Where to put a site's virtual servers, by this Prometheus, whose last seconds are the present state."""
    if importlib.util.find_spec(_PROGRAM) is None:
        return Answer(None, f"there is no program {_PROGRAM}")
    servers = [f"{PARENT}/{site}-{tier}" for tier in TIERS]
    present = f"{present_seconds:.0f}s"
    options = ("--prometheus", prometheus_url, "--present", present, "--past", _PAST, "--json")
    command = [sys.executable, "-m", _PROGRAM, "where", *servers, *options]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, f"{_PROGRAM} has not answered for {SECONDS} s")
    try:
        document = json.loads(done.stdout)
        candidates(document)  # raises for another document
    except (ValueError, AttributeError) as error:
        said = done.stderr.strip().splitlines()
        return Answer(None, f"{_PROGRAM} ended with status {done.returncode}: {said[-1] if said else error!r}")
    return Answer(document, "")
