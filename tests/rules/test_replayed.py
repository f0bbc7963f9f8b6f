"""Figures that are played from a recording bear a label more, and come to the same records as live ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.rules.test_rules import TEST_FILES, from_root, run

# What an exporter can replay; the rest comes from node_exporter and Prometheus itself.
REPLAYABLE = re.compile(r"^ *- series: (?:xen|openvz)_\w+\{", re.MULTILINE)
FILES = [file for file in TEST_FILES if REPLAYABLE.search(file.read_text())]


def test_both_platforms_are_tried() -> None:
    assert {"openvz.yml", "xen.yml"} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=from_root)
def test_rules_do_the_same_with_replayed_series(file: Path, tmp_path: Path) -> None:
    text = REPLAYABLE.sub(lambda series: series[0] + 'replayed="lab",', file.read_text())
    # A test of a series itself, not of a record, does see the label.
    text = re.sub(r"(- expr: )(.*\b(?:xen|openvz)_.*)", r"\1sum without (replayed) (\2)", text)
    changed = tmp_path / file.name
    changed.write_text(
        text.replace("rule_files: [../", f"rule_files: [{file.parents[1]}/").replace(", ../", f", {file.parents[1]}/")
    )
    run("promtool", "test", "rules", changed)
