"""Writes the Helm chart of deploy/kubernetes/chart with the mixin's objects in it, and plain manifests.

python -m tools.chart [--config FILE] [--manifests FILE [--values FILE]] FOLDER

--config is the mixin's (docs/mixin.md), --values the chart's. Jsonnet and Helm are built first if missing.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy import StackError, go_programs
from deploy.places import CHECKOUT
from tools import mixin

SOURCE = CHECKOUT / "deploy" / "kubernetes" / "chart"
# A cluster's Prometheus has other targets too, and the objectives in alerts/ are the demo's.
SETTINGS = "{ targetSelector: 'platform!=\"\"', objectives: [] }"
IN_CHART = ("prometheusRule", "podMonitor", "serviceMonitor", "configMap")


def write(folder: Path, config: Path | None = None) -> None:
    """Write the chart into a folder, whose content is replaced. Raises `StackError`."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = Path(scratch, "config.libsonnet")
        settings.write_text(SETTINGS if config is None else f"{SETTINGS} + import '{config.absolute()}'")
        objects = [file for file in mixin.render(Path(scratch, "mixin"), settings) if file.name.startswith(IN_CHART)]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(SOURCE, folder)
        (folder / "files").mkdir()
        for file in objects:
            shutil.copy(file, folder / "files")


def manifests(folder: Path, values: Path | None = None) -> str:
    """Render the chart in a folder. Raises `StackError` with Helm's own message."""
    command = [str(go_programs.path("helm")), "template", "virtscope", str(folder)]
    command += ["--values", str(values)] if values else []
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError(result.stderr.strip())
    return result.stdout


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.chart", description="Write the Helm chart into a folder.")
    parser.add_argument("--config", type=Path, metavar="FILE", help="Jsonnet with the mixin's settings to change")
    parser.add_argument("--manifests", type=Path, metavar="FILE", help="also render the chart into this file")
    parser.add_argument("--values", type=Path, metavar="FILE", help="the chart's values for --manifests")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        write(arguments.folder, arguments.config)
        if arguments.manifests:
            arguments.manifests.write_text(manifests(arguments.folder, arguments.values))
    except StackError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
