"""The tests that take minutes each, marked `nightly`, in parts.

    python -m tools.nightly              run all of them (make nightly)
    python -m tools.nightly --changed    run the parts that have not passed as their files are now (make test)

How it knows: the names and contents of a part's files, as git tracks them, make a digest. When the part passes, its
digest is kept in the cache, as `go test` keeps its results. A new machine has none, and so runs everything once.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from tools.programs import CHECKOUT, cache

PROGRAMS = ("requirements", "tests/live", "tools/go", "tools/go_programs.py", "tools/programs")
PARTS = {
    "tests/compose": (
        *PROGRAMS,
        *(".dockerignore", "alerts", "compose.yaml", "dashboards", "demo", "exporters", "lab", "prometheus"),
        *("telegraf", "tests/compose", "tests/stack/conftest.py", "tools"),
    ),
    "tests/xen": (
        *(*PROGRAMS, "alerts", "dashboards/json/host.json", "exporters", "packaging", "prometheus"),
        *("tests/distributions", "tests/packages/conftest.py", "tests/packages/test_deb.py", "tests/xen"),
        "tools/deb.py",
    ),
    "tests/lab": (
        *(*PROGRAMS, "alerts", "lab", "prometheus", "telegraf", "tests/lab", "tests/stack/conftest.py"),
        "tools/lab.py",
    ),
    "tests/distributions": (
        *("Makefile", "prometheus/consoles", "requirements", "tests/console/page.py", "tests/distributions"),
        *("tests/stack/conftest.py", "tools"),
    ),
    "tests/mixin": (*PROGRAMS, "alerts", "mixin", "prometheus", "tests/mixin", "tests/rules/test_rules.py"),
    "tests/packages": (
        *("CHANGELOG.md", "LICENSE", "exporters", "packaging", "requirements", "tools/bundle.py", "tools/deb.py"),
        *("docs/ansible.md", "docs/watched-hosts.md", "tests/distributions", "tests/packages"),
    ),
    "tests/ssh": ("exporters", "tests/ssh"),
    "tests/e2e": (*PROGRAMS, "alerts", "prometheus", "tests/e2e/test_full_disk.py"),
    "tests/stack": ("Makefile", "prometheus", "tests/stack/conftest.py", "tests/stack/test_full_disk.py", "tools"),
    "tests/rules": (*PROGRAMS, "alerts", "prometheus", "tests/rules"),
}
"""The folder of a part's tests, and the files and folders that they test."""


def digest(checkout: Path, paths: tuple[str, ...]) -> str:
    """Of the names and contents of the tracked files in these paths, changes that aren't committed included."""
    listed = subprocess.run(
        ["git", "-C", checkout, "ls-files", "-z", "--", *paths], check=True, capture_output=True, text=True
    ).stdout
    found = hashlib.sha256()
    for name in sorted(filter(None, listed.split("\0"))):
        file = checkout / name
        content = file.read_bytes() if file.is_file() else b""  # deleted, not yet committed
        found.update(f"{name}\0{len(content)}\0".encode() + content)
    return found.hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests that take minutes each.")
    parser.add_argument("--changed", action="store_true", help="only the parts that have not passed as they are now")
    changed = parser.parse_args().changed
    failed = []
    for folder, paths in PARTS.items():
        passed = cache("passed") / f"{folder.replace('/', '-')}-{digest(CHECKOUT, paths)}"
        if changed and passed.exists():
            print(f"{folder}: its long tests have passed as its files are now", flush=True)
            continue
        print(f"{folder}: its long tests", flush=True)
        done = subprocess.run([sys.executable, "-m", "pytest", "-m", "nightly", folder], cwd=CHECKOUT, check=False)
        if done.returncode:
            failed.append(folder)
            continue
        passed.parent.mkdir(parents=True, exist_ok=True)
        for older in passed.parent.glob(f"{folder.replace('/', '-')}-*"):
            older.unlink()
        passed.touch()
    if failed:
        print(f"long tests failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
