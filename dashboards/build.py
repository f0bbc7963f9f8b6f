"""Write the dashboards' JSON, or check that the committed files match the sources.

python -m dashboards.build            write dashboards/json/
python -m dashboards.build --check    exit 1 and name outdated files
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import pages

FOLDER = Path(__file__).parent / "json"
DASHBOARDS: dict[str, Callable[[], Dashboard]] = {
    f"{page.name.replace('_', '-')}.json": import_module(f"{pages.__name__}.{page.name}").make
    for page in iter_modules(pages.__path__)
}


def render(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it; sorted keys keep diffs small."""
    return JSONEncoder(sort_keys=True, indent=1, ensure_ascii=False).encode(dashboard) + "\n"


def stale() -> list[Path]:
    """Files that differ from the sources' output, including missing and left-over ones."""
    wanted = {FOLDER / name: render(make()) for name, make in DASHBOARDS.items()}
    found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(path for path in wanted | found if wanted.get(path) != found.get(path))


def write() -> None:
    """Write all dashboards, and remove other files from the folder."""
    FOLDER.mkdir(exist_ok=True)
    for path in stale():
        path.unlink(missing_ok=True)
    for name, make in DASHBOARDS.items():
        (FOLDER / name).write_text(render(make()), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dashboards.build", description="Write the dashboards' JSON.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is out of date")
    if not parser.parse_args().check:
        write()
    elif files := stale():
        sys.exit(f"out of date: {', '.join(path.name for path in files)}; run `python -m dashboards.build` and commit")


if __name__ == "__main__":
    main()
