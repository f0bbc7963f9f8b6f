"""The tests that take minutes each, marked `nightly`, in parts.

    python -m tools.nightly              run all of them (make nightly)
    python -m tools.nightly --changed    begin, for 25 minutes, the parts that have not passed as their files are now
                                         (make test); the next run goes on with what is left

How it knows: the names and contents of a part's files, as git tracks them, make a digest. When the part passes, its
digest is kept in the cache, as `go test` keeps its results. A new machine has none.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

from tools.programs import CHECKOUT, cache

PROGRAMS = ("requirements", "tests/live", "tools/go", "tools/go_programs.py", "tools/programs")
PARTS = {
    "tests/ssh": ("exporters", "tests/ssh"),
    "tests/stack": (
        *("Makefile", "alerts", "fleet", "prometheus", "tests/live", "tests/stack/conftest.py"),
        *("tests/stack/test_fleet.py", "tests/stack/test_full_disk.py", "tools"),
    ),
    "tests/e2e": (
        *(*PROGRAMS, "alerts", "exporters", "prometheus", "tests/e2e/attacker.py", "tests/e2e/running_exporter.py"),
        *("tests/e2e/test_attacks.py", "tests/e2e/test_full_disk.py"),
        *("bench/dense.py", "bench/fleet.py", "tests/e2e/test_dense_hosts.py"),
    ),
    "tests/mixin": (*PROGRAMS, "alerts", "mixin", "prometheus", "tests/mixin", "tests/rules/test_rules.py"),
    "tests/compose": (
        *PROGRAMS,
        *(".dockerignore", "alerts", "compose.fleet.yaml", "compose.yaml", "dashboards", "demo", "exporters", "fleet"),
        *("lab", "prometheus", "telegraf", "tests/compose", "tests/stack/conftest.py", "tools"),
    ),
    "tests/rules": (*PROGRAMS, "alerts", "prometheus", "tests/rules"),
    "tests/distributions": (
        *("Makefile", "prometheus/consoles", "requirements", "tests/console/page.py", "tests/distributions"),
        *("tests/stack/conftest.py", "tools"),
    ),
    "tests/kernels": (
        *("exporters/pyproject.toml", "exporters/systemd/sched-exporter.service", "exporters/virtscope/sched"),
        *("exporters/virtscope/toolkit", "tests/distributions/chroots.py", "tests/distributions/machine.py"),
        *("tests/kernels", "tests/live", "tests/xen/dom0/agent.py", "tests/xen/package.py"),
    ),
    "tests/kvm": ("exporters", "tests/kvm", "tests/live", "tests/xen/dom0/agent.py", "tests/xen/package.py"),
    "tests/xen": (
        *(*PROGRAMS, "alerts", "dashboards/json/host.json", "exporters", "packaging", "prometheus"),
        *("lab/allocation/guests.py", "lab/allocation/platforms.py", "lab/shell.py"),
        *("lab/environments.py", "lab/factors", "lab/suites", "tests/lab/runs.py", "tests/stack/conftest.py"),
        *("tests/distributions", "tests/packages/conftest.py", "tests/packages/test_deb.py", "tests/xen"),
        "tools/deb.py",
    ),
    "tests/packages": (
        *("CHANGELOG.md", "LICENSE", "exporters", "packaging", "requirements", "tools/bundle.py", "tools/deb.py"),
        *("docs/ansible.md", "docs/watched-hosts.md", "tests/distributions", "tests/packages"),
        *("tools/licences.py", "tools/sbom.py"),
    ),
    "tests/lab": (
        *(*PROGRAMS, "alerts", "exporters/virtscope/sched", "lab", "prometheus", "telegraf", "tests/lab"),
        "tests/stack/conftest.py",
        *("tests/ssh/sshd.py", "tests/xen/debian.py", "tests/xen/image.py", "tools/lab.py"),
    ),
    "tests/mutants": (
        *("alerts/generator", "alerts/rules", "alerts/tests", "exporters/virtscope", "profile_import"),
        *("prometheus/rules", "prometheus/tests", "tests/mutants", "tests/unit", "tools/mutants"),
    ),
    "tests/fleet": (*PROGRAMS, "alerts", "bench/fleet.py", "fleet", "prometheus", "tests/fleet"),
    "tests/faults": (
        *(*PROGRAMS, "alerts/alertmanager.yml", "alerts/rules/monitoring.yml", "alerts/rules/stack.yml"),
        *("exporters/virtscope/toolkit", "exporters/virtscope/xen/xentop.py", "faults", "prometheus/prometheus.yml"),
        *("tests/e2e/fake_xentop.py", "tests/faults", "tests/stack/conftest.py", "tools"),
    ),
}
"""The folder of a part's tests, and the files and folders that they test; those that take longest are the last."""
CHANGED_SECONDS = 25 * 60
# They try the whole and its tests, which takes far longer than a change should wait for, or a machine that does nothing
# else (docs/scale.md, Proof).
NOT_FOR_A_CHANGE = {"tests/faults", "tests/fleet", "tests/mutants"}


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
    begun = time.monotonic()
    for folder, paths in PARTS.items():
        passed = cache("passed") / f"{folder.replace('/', '-')}-{digest(CHECKOUT, paths)}"
        if changed and passed.exists():
            print(f"{folder}: its long tests have passed as its files are now", flush=True)
            continue
        if changed and (folder in NOT_FOR_A_CHANGE or time.monotonic() - begun > CHANGED_SECONDS):
            print(f"{folder}: its long tests have not passed as its files are now; make nightly runs them", flush=True)
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
