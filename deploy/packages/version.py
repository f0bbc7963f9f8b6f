"""Sets the version of the next release: make version VERSION=0.2.0."""

import argparse
import re
import sys
from datetime import UTC, datetime

from deploy import StackError
from deploy.packages import deb
from deploy.places import CHECKOUT

CODE = CHECKOUT / "exporters/virtscope/__init__.py"
CHART = CHECKOUT / "deploy/kubernetes/chart/Chart.yaml"
CHANGES = CHECKOUT / "CHANGELOG.md"
_UNRELEASED = "## [Unreleased]\n"


def set_version(new: str, date: str) -> None:
    """Write it into the code, from which packages have it, and the chart; the changelog's newest section gets its name.

    Raises `StackError` for anything but three numbers that are higher than the version before.
    """
    before = deb.version()
    if not re.fullmatch(r"\d+\.\d+\.\d+", new) or _numbers(new) <= _numbers(before):
        raise StackError(f"VERSION={new} must be like 0.2.0, and higher than {before}")
    changes = CHANGES.read_text()
    if _UNRELEASED not in changes:
        raise StackError(f"{CHANGES.name} has no line {_UNRELEASED.strip()}")
    CHANGES.write_text(changes.replace(_UNRELEASED, f"{_UNRELEASED}\n## [{new}] - {date}\n", 1))
    chart = re.sub(rf'(?m)^(version|appVersion): ("?){re.escape(before)}\2$', rf"\1: \g<2>{new}\2", CHART.read_text())
    CHART.write_text(chart)
    CODE.write_text(CODE.read_text().replace(f'"{before}"', f'"{new}"', 1))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.packages.version", description="Set the version.")
    parser.add_argument("version", help="such as 0.2.0")
    try:
        set_version(parser.parse_args().version, f"{datetime.now(UTC):%Y-%m-%d}")
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
