"""The committed JSON matches its sources, and the provisioning files work in any location."""

import re
from pathlib import Path

import pytest

from dashboards import build


def test_committed_dashboards_are_up_to_date() -> None:
    assert build.stale() == [], "run `python -m dashboards.build` and commit its changes"


def test_an_edited_a_missing_and_a_left_over_file_are_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    build.write()
    edited, missing, *others = sorted(tmp_path.glob("*.json"))
    edited.write_text(edited.read_text().replace("virtscope", "other"))
    missing.unlink()
    left_over = tmp_path / "renamed-since.json"
    left_over.write_text("{}")
    assert build.stale() == sorted([edited, missing, left_over])
    build.write()
    assert (build.stale(), sorted(tmp_path.glob("*.json"))) == ([], [edited, missing, *others])


def test_places_come_from_the_environment_and_nothing_else_does() -> None:
    """compose.yaml and deploy/ set these variables for Grafana."""
    provisioning = Path(__file__).resolve().parents[2] / "dashboards" / "provisioning"
    text = "".join(file.read_text() for file in provisioning.rglob("*.yml"))
    assert set(re.findall(r"\$\{?(\w+)", text)) == {"PROMETHEUS_URL", "VIRTSCOPE_DASHBOARDS", "VIRTSCOPE_INTERVAL"}
    whole = r"url: \$PROMETHEUS_URL$|path: \$VIRTSCOPE_DASHBOARDS$|timeInterval: \$VIRTSCOPE_INTERVAL "
    assert len(re.findall(whole, text, re.MULTILINE)) == 3
