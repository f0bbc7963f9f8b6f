"""Changes code in small ways, by Cosmic Ray's operators, and shows the changes that no test notices: make mutants.

    python -m tools.mutants.generated --tests tests/unit/xen exporters/virtscope/xen/xl.py

Cosmic Ray changes a copy of the checkout. Exits with 1 for an unnoticed change, and if the tests fail without one.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy import programs
from tools.mutants.listed import PYTEST, copy_checkout

SECONDS = 120.0  # for the tests of a change, which may loop without end
NAME = "mutants.toml"


def main() -> int:
    parser = argparse.ArgumentParser(description="Change code in small ways; show changes that no test notices.")
    parser.add_argument("--tests", nargs="+", required=True, metavar="PATH", help="the tests that must notice")
    parser.add_argument("files", nargs="+", metavar="FILE", help="the modules to change")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="virtscope-mutants-") as folder:
        copy_checkout(Path(folder))
        Path(folder, NAME).write_text(configuration(given.files, given.tests))
        for command in (
            ["cosmic-ray", "baseline", NAME],
            ["cosmic-ray", "init", NAME, "session.sqlite"],
            ["cr-filter-operators", "session.sqlite", NAME],
            ["cosmic-ray", "exec", NAME, "session.sqlite"],
            ["cr-report", "--surviving-only", "--show-diff", "session.sqlite"],
            ["cr-rate", "--fail-over", "0", "session.sqlite"],
        ):
            program = Path(sys.executable).with_name(command[0])
            environment = {**os.environ, "VIRTSCOPE_CACHE": str(programs.cache("."))}
            status = subprocess.run([program, *command[1:]], cwd=folder, env=environment, check=False).returncode
            if status:
                return status
    return 0


def configuration(files: Sequence[str], tests: Sequence[str]) -> str:
    """Cosmic Ray's configuration, in TOML, whose strings are JSON's."""
    return f"""\
[cosmic-ray]
module-path = {json.dumps([*files])}
timeout = {SECONDS}
excluded-modules = []
test-command = {json.dumps(shlex.join([*PYTEST, *tests]))}

[cosmic-ray.distributor]
name = "local"

[cosmic-ray.filters.operators-filter]
exclude-operators = ["core/ReplaceBinaryOperator_BitOr_.*"]  # mostly in annotations
"""


if __name__ == "__main__":
    sys.exit(main())
