"""Results of panel queries over a given history, computed by promtool."""

from collections.abc import Mapping
from pathlib import Path

from tests.dashboards.queries import Shown, fill_in
from tests.rules.promtool import evaluate

VARIABLES = {
    **Shown(3600, step=60).variables(),
    "__rate_interval": "2m",
    "host_platform": "xen",
    "hosts": "xen1",
    "host": "xen1",
    "app": "shop",
    "vserver": ".*",
    "for": "cpu",
}


def assert_answers(
    folder: Path,
    expr: str,
    minute: int,
    wanted: Mapping[str, float],
    history: Mapping[str, str],
    *,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Expect these series from a panel's query at this minute of a history with a sample per minute."""
    case = {
        "expr": fill_in(expr, {**VARIABLES, **(variables or {})}),
        "eval_time": f"{minute}m",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in wanted.items()],
    }
    evaluate(folder / "panel.yml", [], interval=60, evaluation=60, given=history.items(), expected=[case])
