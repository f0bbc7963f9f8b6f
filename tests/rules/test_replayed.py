"""Series replayed from a recording have an additional label, and give the same records as live ones."""

import re
from pathlib import Path

import pytest

from deploy.exporters import PLATFORM_OF
from tests.rules.test_rules import TEST_FILES, from_root, run

# Metrics that an exporter can replay; the rest comes from node_exporter and Prometheus itself.
_NATIVE = "|".join(PLATFORM_OF.values())
REPLAYABLE = re.compile(rf"^ *- series: (?:{_NATIVE})_\w+\{{", re.MULTILINE)
FILES = [file for file in TEST_FILES if REPLAYABLE.search(file.read_text())]


def test_every_platform_with_recordings_is_covered() -> None:
    assert {f"{platform}.yml" for platform in PLATFORM_OF.values()} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=from_root)
def test_rules_give_the_same_with_replayed_series(file: Path, tmp_path: Path) -> None:
    text = REPLAYABLE.sub(lambda series: series[0] + 'replayed="lab",', file.read_text())
    # Tests of a raw series see the label, unlike tests of records.
    text = re.sub(rf"(- expr: )(.*\b(?:{_NATIVE})_.*)", r"\1sum without (replayed) (\2)", text)
    changed = tmp_path / file.name
    changed.write_text(
        text.replace("rule_files: [../", f"rule_files: [{file.parents[1]}/").replace(", ../", f", {file.parents[1]}/")
    )
    run("promtool", "test", "rules", changed)
