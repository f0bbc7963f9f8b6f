"""Renders the mixin: rules, alerts and dashboards for an existing Prometheus and Grafana. See docs/mixin.md.

python -m tools.mixin [--config FILE] FOLDER

FILE is Jsonnet with changed settings, like `_config` in mixin/config.libsonnet. The Jsonnet program is built first if
missing (`deploy.go_programs`).
"""

import argparse
import subprocess
import sys
from pathlib import Path

from deploy import StackError, go_programs

SOURCES = Path(__file__).resolve().parent.parent / "mixin"


def render(folder: Path, config: Path | None = None) -> list[Path]:
    """Write the mixin's files into a folder, created if missing; return them.

    Raises `StackError` with Jsonnet's own message, or if the program can't be built.
    """
    command = [str(go_programs.path("jsonnet")), "--string", "--create-output-dirs", "--multi", str(folder)]
    if config is not None:
        command += ["--tla-code-file", f"config={config.absolute()}"]
    command.append(str(SOURCES / "render.jsonnet"))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        message, *trace = result.stderr.removeprefix("RUNTIME ERROR: ").strip().splitlines()
        # What is wrong with a setting says so itself; what isn't Jsonnet is in a line of the user's file.
        raise StackError(message if result.stderr.startswith("RUNTIME ERROR: ") else "\n".join([message, *trace]))
    return [Path(line) for line in result.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mixin", description="Render the mixin into a folder.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="Jsonnet with the settings to change")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        files = render(arguments.folder, arguments.config)
    except StackError as error:
        sys.exit(f"error: {error}")
    print("\n".join(map(str, files)))


if __name__ == "__main__":
    main()
