"""Write the dashboards' JSON, or check that what is committed is what the sources say.

python -m dashboards.build            write dashboards/json/
python -m dashboards.build --check    exit 1 and name the files that are not fresh
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.pages import (
    applications,
    caches_and_events,
    consolidation,
    fleet,
    host,
    monitor,
    openvz,
    profile,
    virtual_servers,
    xen,
)

FOLDER = Path(__file__).parent / "json"
PAGES: list[ModuleType] = [
    fleet,
    host,
    virtual_servers,
    caches_and_events,
    profile,
    applications,
    consolidation,
    xen,
    openvz,
    monitor,
]
DASHBOARDS: dict[str, Callable[[], Dashboard]] = {
    f"{page.__name__.rpartition('.')[2].replace('_', '-')}.json": page.make for page in PAGES
}


def render(dashboard: Dashboard) -> str:
    """The dashboard as Grafana imports it, with sorted keys so that a change shows as a small difference."""
    return JSONEncoder(sort_keys=True, indent=2, ensure_ascii=False).encode(dashboard) + "\n"


def stale() -> list[Path]:
    """Files whose content differs from what the sources make, missing and left-over ones included."""
    wanted = {FOLDER / name: render(make()) for name, make in DASHBOARDS.items()}
    found = {path: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(path for path in wanted | found if wanted.get(path) != found.get(path))


def write() -> None:
    """Make the folder hold exactly the dashboards of the sources."""
    FOLDER.mkdir(exist_ok=True)
    for path in stale():
        path.unlink(missing_ok=True)
    for name, make in DASHBOARDS.items():
        (FOLDER / name).write_text(render(make()), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m dashboards.build", description="Write the dashboards' JSON.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not fresh")
    if not parser.parse_args().check:
        write()
    elif files := stale():
        sys.exit(f"not fresh: {', '.join(path.name for path in files)}; run `python -m dashboards.build` and commit")


if __name__ == "__main__":
    main()
