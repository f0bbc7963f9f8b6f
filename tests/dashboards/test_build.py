"""The committed JSON matches its sources, and the provisioning files work in any location."""

import re
from pathlib import Path

import pytest

from dashboards import build


def test_committed_dashboards_are_up_to_date() -> None:
    committed = {file.name: file.read_text() for file in build.FOLDER.glob("*.json")}
    assert committed == build.rendered(), "run `python -m dashboards.build` and commit its changes"


def test_a_file_that_is_left_over_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    (tmp_path / "renamed-since.json").write_text("{}")
    build.write()
    assert {file.name for file in tmp_path.iterdir()} == set(build.rendered())


def test_places_come_from_the_environment_and_nothing_else_does() -> None:
    """compose.yaml and deploy/ set these variables for Grafana."""
    provisioning = Path(__file__).resolve().parents[2] / "dashboards" / "provisioning"
    text = "".join(file.read_text() for file in provisioning.rglob("*.yml"))
    assert set(re.findall(r"\$\{?(\w+)", text)) == {"PROMETHEUS_URL", "VIRTSCOPE_DASHBOARDS", "VIRTSCOPE_INTERVAL"}
    whole = r"url: \$PROMETHEUS_URL$|path: \$VIRTSCOPE_DASHBOARDS$|timeInterval: \$VIRTSCOPE_INTERVAL "
    assert len(re.findall(whole, text, re.MULTILINE)) == 3
