"""`make up` with Grafana's release where it can be had, and without where it can't; data that another release wrote.

The release is a stand-in in the form of the real archive: there is no registry that tests could take Grafana from.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile

import pytest
import requests

from tests.stack.conftest import Checkout
from tests.stack.release_site import site
from tests.stack.test_machines import GRAFANA
from tools.programs import catalogue, releases

RELEASE = catalogue.GRAFANA.release


def archive() -> bytes:
    """Packed like Grafana's: one folder with bin/, conf/ and more."""
    program = GRAFANA.replace(
        "import http.server", "import sys\nif '--version' in sys.argv: sys.exit()\nimport http.server", 1
    )
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content, mode in (("bin/grafana", program, 0o755), ("conf/defaults.ini", "", 0o644)):
            entry = tarfile.TarInfo(f"grafana-{RELEASE.version}/{name}")
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content.encode()))
    return packed.getvalue()


def test_up_ends_with_dashboards_where_the_release_can_be_had(
    fresh: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with site(archive()) as played:
        file = fresh.folder / "tools" / "programs" / "catalogue.py"
        pins = file.read_text()
        for pin in RELEASE.sha256.values():
            pins = pins.replace(pin, hashlib.sha256(played.content).hexdigest())
        file.write_text(pins)
        cache = tmp_path_factory.mktemp("cache")  # of its own: this is no release to be kept
        for name in ("packages", "wheels", "go"):
            (cache / name).symlink_to(f"{fresh.environment['VIRTSCOPE_CACHE']}/{name}")
        own = {"VIRTSCOPE_MIRROR": played.url, "VIRTSCOPE_CACHE": str(cache)}
        up = fresh.make("up", **own)
        assert up.returncode == 0, up.stdout
        grafana = RELEASE.url.format(version=RELEASE.version, architecture=releases.architecture()).rpartition("/")[2]
        assert f"/{grafana}" in played.requests
        assert fresh.url("GRAFANA_PORT") in up.stdout
        settings = requests.get(fresh.url("GRAFANA_PORT"), timeout=10).json()
        assert settings["GF_PATHS_PROVISIONING"].startswith(str(fresh.folder))
        status = fresh.make("status", **own)
        assert re.search(
            rf"^grafana +running .* {re.escape(RELEASE.version)}, official release$", status.stdout, re.MULTILINE
        )

        asked = len(played.requests)
        again = fresh.make("up", **own)
        assert "its configuration was reloaded" in again.stdout
        assert len(played.requests) == asked
    assert fresh.make("down", **own).returncode == 0


def test_without_grafana_up_says_why_and_what_else_there_is(running: Checkout) -> None:
    status = running.make("status")
    [row] = [line for line in status.stdout.splitlines() if line.startswith("grafana ")]
    assert "127.0.0.1:9 cannot be reached: Connection refused" in row
    assert "docs/install.md#grafana" in row
    assert status.returncode == 0


def test_data_of_prometheus_3_is_not_given_to_an_older_one(stopped: Checkout) -> None:
    up = stopped.make("up")
    assert up.returncode == 0, up.stdout
    stopped.make("down")
    writer = stopped.folder / ".stack" / "data" / "prometheus-version"
    ours = writer.read_text()
    assert not ours.startswith("3."), "where tests may download nothing, Prometheus is Debian's 2.42 or 2.53"
    before = sorted((writer.parent / "prometheus").rglob("*"))
    try:
        writer.write_text("3.13.4\n")
        refused = stopped.make("up")
        assert refused.returncode != 0
        [error] = [line for line in refused.stdout.splitlines() if line.startswith("error: ")]
        assert "was written by Prometheus 3.13.4" in error
        assert "make tools-update" in error
        assert sorted((writer.parent / "prometheus").rglob("*")) == before
        assert stopped.processes() == {}
    finally:
        writer.write_text(ours)
