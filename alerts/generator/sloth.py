"""Runs Sloth (https://sloth.dev) for an objective's records and multi-window, multi-burn-rate conditions."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from alerts.generator.rule_file import Rule
from deploy import go_programs


class SlothError(Exception):
    """Sloth isn't available, or rejects the objectives. The message is one line for the user."""


@dataclass(frozen=True)
class Pair:
    """One condition of a burn alert: its short and its long window ("5m", "1h") must both exceed `limit` (PromQL)."""

    short: str
    long: str
    limit: str
    expr: str


@dataclass(frozen=True)
class Generated:
    """Sloth's output for one objective.

    sli: records `slo:sli_error:ratio_rate5m` to `..._rate30d`, by window. budget: records about the budget, by name.
    page, ticket: pairs of windows, fastest first; the alert fires if either holds.
    """

    sli: Mapping[str, Rule]
    budget: Mapping[str, Rule]
    page: tuple[Pair, Pair]
    ticket: tuple[Pair, Pair]


def generate(service: str, labels: Mapping[str, str], share: float, *, bad: str, total: str) -> Generated:
    """The rules of one objective over 30 days.

    labels: of its records, including `objective` with its name. share: 0..1. bad, total: queries for the bad requests
    and for all counted requests, with `{{.window}}` as their range. Raises `SlothError`.
    """
    spec = {
        "version": "prometheus/v1",
        "service": service,
        "slos": [
            {
                "name": labels["objective"],
                "objective": round(share * 100, 10),  # 99.9, not 99.90000000000001
                "labels": dict(labels),
                "sli": {"events": {"error_query": bad, "total_query": total}},
                "alerting": {"name": "Burns"},
            }
        ],
    }
    groups: list[list[dict[str, Any]]] = [group["rules"] for group in yaml.safe_load(_run(spec))["groups"]]
    sli, budget, (page, ticket) = groups
    return Generated(
        sli={rule["labels"]["sloth_window"]: rule for rule in sli},
        budget={rule["record"]: rule for rule in budget},
        page=_pairs(page["expr"]),
        ticket=_pairs(ticket["expr"]),
    )


def _pairs(expr: str) -> tuple[Pair, Pair]:
    """The pairs of windows in an alert; Sloth writes its conditions as `(A) or (B)`, the shorter window first."""
    faster, slower = map(_pair, expr.split("\nor\n"))
    return faster, slower


def _pair(expr: str) -> Pair:
    short, long = re.findall(r"ratio_rate(\w+)\{", expr)
    limit, _ = re.findall(r"> (\([^)]*\))", expr)
    return Pair(short, long, limit, expr.strip())


def _run(spec: Mapping[str, object]) -> str:
    try:
        sloth = go_programs.path("sloth")
    except go_programs.GoProgramsError as error:
        raise SlothError(f"no Sloth: {error}") from error
    with tempfile.TemporaryDirectory(prefix="objectives-") as folder:
        file = Path(folder, "spec.yml")
        file.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        # Not optimised: that averages the ratios of all five-minute windows for 30 days, so a quiet night would weigh
        # as much as a busy day.
        command = [str(sloth), "generate", "--no-log", "--disable-optimized-rules", "--input", str(file)]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    if result.returncode:
        complaint = result.stderr.strip().splitlines() or [f"it ended with status {result.returncode}"]
        raise SlothError(f"Sloth rejects its objectives: {complaint[-1]}")
    return result.stdout
