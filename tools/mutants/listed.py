"""Makes the mistakes of listed.yml, one at a time, and shows those that no test notices: make mutants-listed.

    python -m tools.mutants.listed [--only REGEX]

Each is made in a copy of the checkout, in which the tests that must notice it run: pytest's, or promtool's for rules.
Dashboards' JSON is generated first. Exits with 1 for an unnoticed mistake, if its text isn't exactly once in its file,
and if its tests fail without it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import yaml

from deploy import programs
from deploy.programs import CHECKOUT

LIST = Path(__file__).with_name("listed.yml")
AT_ONCE = 2
# A mistake may loop without end, or fill a list until the memory is full.
PYTEST = ["prlimit", f"--as={4 << 30}", sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "--timeout=60"]
PYTEST += ["-m", "not system and not long", "--hypothesis-seed=0"]


class Mistake(NamedTuple):
    """An entry of the list; `killed_by` are paths of tests, below the checkout."""

    file: str
    text: str
    instead: str
    why: str
    killed_by: tuple[str, ...]


def listed() -> list[Mistake]:
    """All entries, in the order of the file."""
    areas = yaml.safe_load(LIST.read_text())
    return [
        Mistake(entry["file"], entry["text"], entry["instead"], entry["why"], tuple(entry["killed by"]))
        for entries in areas.values()
        for entry in entries
    ]


def pass_with(tests: Sequence[str], mistake: Mistake | None = None) -> bool:
    """Whether these tests pass with the mistake, in a copy of the checkout with its uncommitted changes."""
    with tempfile.TemporaryDirectory(prefix="virtscope-mutants-") as folder:
        copy_checkout(Path(folder))
        if mistake:
            changed = Path(folder, mistake.file)
            changed.write_text(changed.read_text().replace(mistake.text, mistake.instead))
            if mistake.file.startswith("dashboards/") and not _passes(
                folder, [sys.executable, "-m", "dashboards.build"]
            ):
                return False
        promtool = [str(programs.path("promtool")), "test", "rules"]
        return all(_passes(folder, [*(promtool if test.endswith(".yml") else PYTEST), test]) for test in tests)


def copy_checkout(folder: Path) -> None:
    listing = ["git", "-C", str(CHECKOUT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0"):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, folder / name)


def _passes(folder: str, command: Sequence[str]) -> bool:
    environment = {**os.environ, "VIRTSCOPE_CACHE": str(programs.cache("."))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Make listed mistakes, and show those that no test notices.")
    parser.add_argument("--only", default="", metavar="REGEX", help="those whose file or reason has this")
    only = parser.parse_args().only
    mistakes = [mistake for mistake in listed() if re.search(only, f"{mistake.file} {mistake.why}")]
    tests = sorted({test for mistake in mistakes for test in mistake.killed_by})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        passing = list(pool.map(lambda test: pass_with([test]), tests))
        wrong = [f"{test} fails without a mistake" for test, passes in zip(tests, passing, strict=True) if not passes]
        wrong += [
            f"{mistake.file} has this {times} times, not once: {mistake.text!r}"
            for mistake in mistakes
            if (times := (CHECKOUT / mistake.file).read_text().count(mistake.text)) != 1
        ]
        if wrong:
            print(*wrong, sep="\n", file=sys.stderr)
            return 1
        unnoticed = 0
        for mistake, passes in zip(
            mistakes, pool.map(lambda mistake: pass_with(mistake.killed_by, mistake), mistakes), strict=True
        ):
            print("UNNOTICED" if passes else "noticed  ", f"{mistake.file}: {mistake.why}", flush=True)
            if passes:
                unnoticed += 1
                print(f"- {mistake.text}\n+ {mistake.instead}\nby none of {' '.join(mistake.killed_by)}")
    print(f"{len(mistakes) - unnoticed} of {len(mistakes)} mistakes noticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
