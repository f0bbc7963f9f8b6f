"""Write the dashboards' JSON into dashboards/json/: `python -m dashboards.build`."""

import json
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import pages

FOLDER = Path(__file__).parent / "json"
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("auto", "includeAll", "multi", "skipUrlSync", "instant", "range", "transparent"), False),
    **dict.fromkeys(("filterable", "inspect", "showPercentChange", "showTypeIcons"), False),
    **dict.fromkeys(("align", "justifyMode", "orientation", "textMode"), "auto"),
    **dict.fromkeys(("showHeader", "wideLayout"), True),
    "auto_count": 30,
    "auto_min": "10s",
    "cellHeight": "sm",
    "custom": {},
    "frameIndex": 0,
    "reduceOptions": {"calcs": []},
    "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
    # Without repetition, Grafana's newer front end ("scenes") makes a panel with a direction full-width.
    "repeatDirection": "h",
    # Grafana before 12; later versions have a column option instead.
    "footer": {"countRows": False, "reducer": [], "show": False},
}
"""What the SDK writes although it is Grafana's default, or misread by newer versions."""

DASHBOARDS: dict[str, Dashboard] = {
    f"{page.name.replace('_', '-')}.json": import_module(f"{pages.__name__}.{page.name}").PAGE
    for page in iter_modules(pages.__path__)
}


def render(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it; sorted keys keep diffs small."""
    page = _without_defaults(json.loads(JSONEncoder().encode(dashboard)))
    return json.dumps(page, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def _without_defaults(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_without_defaults(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    kept = {key: _without_defaults(value) for key, value in tree.items()}
    return {key: value for key, value in kept.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


def rendered() -> dict[str, str]:
    """The text of each file."""
    return {name: render(page) for name, page in DASHBOARDS.items()}


def write() -> None:
    """Write all dashboards, and remove other files from the folder."""
    FOLDER.mkdir(exist_ok=True)
    for left in FOLDER.glob("*.json"):
        left.unlink()
    for name, text in rendered().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
