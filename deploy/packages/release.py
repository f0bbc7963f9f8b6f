"""Writes what a release consists of into a folder: make release.

    python -m deploy.packages.release [--key KEY] FOLDER

The same commit on the same release of Debian, with the same packages of it, gives the same bytes, signatures excepted.
docs/dev/release.md says how to publish it.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deploy import StackError
from deploy.packages import apt, bundle, deb, image, sbom
from deploy.places import CHECKOUT

OLDEST_GRAFANA = "12.4.0"  # with which the dashboards were looked at


def write(folder: Path, key: str | None) -> Iterator[str]:
    """Write the release into the folder, which must not exist yet; yields a line for each part that can't be made.

    Raises `StackError` for a part that a release can't do without.
    """
    folder.mkdir(parents=True)
    packages = folder / "packages"
    packages.mkdir()
    with tempfile.TemporaryDirectory(prefix="virtscope-debs-") as debs:
        apt.build(deb.build(Path(debs)), folder / "apt", key)
    if key is None:
        yield "apt/ is not signed: pass KEY=, a key of your GnuPG"
    _wheel(packages)
    image.build(packages)
    _chart(packages)
    for architecture in image.ARCHITECTURES:
        with tempfile.TemporaryDirectory(prefix="virtscope-python-") as python:
            try:
                bundle.standalone_python(Path(python) / "python", architecture)
                bundle.build(packages, Path(python) / "python")
            except StackError as error:
                yield f"there is no archive with a Python of its own for {architecture}: {error}"
    (packages / f"virtscope-{deb.version()}.cdx.json").write_text(sbom.of_packages())
    for source, target in _RULES.items():
        (folder / target).mkdir(parents=True, exist_ok=True)
        for file in sorted(CHECKOUT.glob(source)):
            shutil.copy(file, folder / target)
    _write_each(folder / "grafana", {file.name: _for_grafana_com(file) for file in _DASHBOARDS})
    _write_each(folder / "scrape", dict(_jobs()))
    shutil.copy(deb.INSTALLER, folder)
    _sums(folder)


_RULES = {
    "prometheus/rules/*.yml": "rules",
    "prometheus/rules/generated/*.yml": "rules",
    "alerts/rules/*.yml": "alerts",
    "alerts/alertmanager.yml": "alerts",
    "alerts/templates/*.tmpl": "alerts/templates",
}
_STACK = {"alertmanager", "prometheus", "stack"}  # jobs of the stack about itself
_DASHBOARDS = sorted(CHECKOUT.glob("dashboards/json/*.json"))


def _wheel(target: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    command = [*build, f"--outdir={target}", f"{CHECKOUT}/exporters"]
    environment = {"SOURCE_DATE_EPOCH": str(deb.source_date()), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StackError(f"the wheel can't be built: {done.stdout}{done.stderr}")


def _chart(target: Path) -> None:
    """The Helm chart as `helm package` would write it, but reproducibly."""
    with tempfile.TemporaryDirectory(prefix="virtscope-chart-") as folder:
        command = [sys.executable, "-m", "tools.chart", folder]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise StackError(f"the chart can't be made: {done.stderr.strip()}")
        chart = image.packed(Path(folder), "virtscope")
    (target / f"virtscope-{deb.version()}.tgz").write_bytes(chart)


def _for_grafana_com(file: Path) -> str:
    """A dashboard that asks for its data source when it is imported, and names what it needs."""
    page: dict[str, Any] = json.loads(file.read_text())
    asked = {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource"}
    page["__inputs"] = [{**asked, "pluginId": "prometheus", "pluginName": "Prometheus"}]
    panels = {panel["type"] for row in page["panels"] for panel in (row, *row.get("panels", ()))} - {"row"}
    page["__requires"] = [
        {"type": "grafana", "id": "grafana", "name": "Grafana", "version": OLDEST_GRAFANA},
        {"type": "datasource", "id": "prometheus", "name": "Prometheus", "version": OLDEST_GRAFANA},
        *({"type": "panel", "id": name, "name": name, "version": ""} for name in sorted(panels)),
    ]
    for variable in page["templating"]["list"]:
        if variable["type"] == "datasource":
            variable["current"] = {"selected": True, "text": "${DS_PROMETHEUS}", "value": "${DS_PROMETHEUS}"}
    return json.dumps(page, indent=2, ensure_ascii=False) + "\n"


def _jobs() -> Iterator[tuple[str, str]]:
    """Each scrape job as a file for `scrape_config_files`, without anchors."""
    configuration = yaml.safe_load((CHECKOUT / "prometheus/prometheus.yml").read_text())
    for job in json.loads(json.dumps(configuration["scrape_configs"])):  # nothing shared: no anchors
        if job["job_name"] in _STACK:
            continue
        for discovery in job.get("file_sd_configs", ()):
            discovery["files"] = [f"targets/{Path(discovery['files'][0]).name}"]
        yield f"{job['job_name']}.yml", yaml.safe_dump({"scrape_configs": [job]}, sort_keys=False, width=120)


def _write_each(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


def _sums(folder: Path) -> None:
    """Write SHA256SUMS, for `sha256sum --check`."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    lines = (f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder)}\n" for file in files)
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.packages.release", description="Write a release.")
    parser.add_argument("--key", help="the key of your GnuPG that signs apt's folder")
    parser.add_argument("folder", type=Path, help="replaced if it exists")
    arguments = parser.parse_args()
    folder = arguments.folder / f"virtscope-{deb.version()}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        for missing in write(folder, arguments.key):
            print(f"note: {missing}", file=sys.stderr)
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
