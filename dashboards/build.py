"""Write the dashboards' JSON, or check that the committed files match the sources.

python -m dashboards.build            write dashboards/json/
python -m dashboards.build --check    exit 1 and name outdated files
"""

import argparse
import json
import sys
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


def stale() -> list[Path]:
    """Files that differ from the sources' output, including missing and left-over ones."""
    wanted = {FOLDER / name: render(page) for name, page in DASHBOARDS.items()}
    found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(path for path in wanted | found if wanted.get(path) != found.get(path))


def write() -> None:
    """Write all dashboards, and remove other files from the folder."""
    FOLDER.mkdir(exist_ok=True)
    for path in stale():
        path.unlink(missing_ok=True)
    for name, page in DASHBOARDS.items():
        (FOLDER / name).write_text(render(page), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dashboards.build", description="Write the dashboards' JSON.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    if not parser.parse_args().check:
        write()
    elif files := stale():
        sys.exit(f"out of date: {', '.join(path.name for path in files)}; run `python -m dashboards.build` and commit")


if __name__ == "__main__":
    main()
