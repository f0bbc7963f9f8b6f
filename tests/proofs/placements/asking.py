"""Asks advise before a move, as a user does."""

import importlib.util
import json
import subprocess
import sys
from typing import Any, NamedTuple

from lab.servers.instance import TIERS
from tests.proofs import CHECKOUT
from tests.proofs.placements.judgement import candidates

SECONDS = 60
_PROGRAM = "advise"


class Answer(NamedTuple):
    """A document, or the reason why there is none."""

    document: dict[str, Any] | None
    lacking: str


def ask(site: str, prometheus_url: str) -> Answer:
    """Where to put a site's virtual servers, by this Prometheus."""
    if importlib.util.find_spec(_PROGRAM) is None:
        return Answer(None, f"there is no program {_PROGRAM}")
    servers = [f"{site}-{tier}" for tier in TIERS]
    command = [sys.executable, "-m", _PROGRAM, "where", *servers, "--prometheus", prometheus_url, "--json"]
    try:
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, f"{_PROGRAM} has not answered for {SECONDS} s")
    try:
        document = json.loads(done.stdout)
        candidates(document)  # raises for another document
    except (ValueError, AttributeError) as error:
        said = done.stderr.strip().splitlines()
        return Answer(None, f"{_PROGRAM} ended with status {done.returncode}: {said[-1] if said else error}")
    return Answer(document, "")
