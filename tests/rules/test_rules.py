"""Configuration, rules and alerts are valid and pass their unit tests.

The unit tests are in prometheus/tests/ and alerts/tests/, in promtool's format.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.exporters import PLATFORMS
from tests.support.program import program_path

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ["prometheus/rules/*.yml", "alerts/rules/*.yml"]
GENERATED = ["prometheus/rules/generated/*.yml", "alerts/generated/*.yml"]  # by `make rules`
RULE_FILES = sorted(file for pattern in [*WRITTEN, *GENERATED] for file in ROOT.glob(pattern))
# Tests of several rule files together: with intervals other than the files' own, or with guests that come and go.
OF_SEVERAL = {
    *(ROOT / "prometheus" / "tests" / f"{name}.yml" for name in ("seldom", "each_minute")),
    *ROOT.glob("prometheus/tests/churn_*.yml"),
}
TEST_FILES = sorted([*ROOT.glob("prometheus/tests/*.yml"), *ROOT.glob("alerts/tests/*.yml")])


def rules_in_order(*others: Path) -> list[Path]:
    """All rule files in an order in which promtool may evaluate them: producers of records before their readers.

    Rules that map applications to virtual servers come before rules derived from platforms.
    """
    platforms = [f"prometheus/rules/{name}.yml" for name in (*PLATFORMS, "openvz_beancounters", "events", "waits")]
    first = [ROOT / name for name in (*platforms, "prometheus/rules/generated/requests.yml")]
    alerts = [file for file in RULE_FILES if file.is_relative_to(ROOT / "alerts")]
    derived = ROOT / "prometheus/rules/derived.yml"
    rest = [file for file in RULE_FILES if file not in {*first, *alerts, derived}]
    generated = [file for file in alerts if file.parent.name == "generated"]
    return [*first, *others, derived, *rest, *generated, *(file for file in alerts if file not in generated)]


def run(program: str, *arguments: str | Path) -> str:
    """A program's output; fails the test if the program fails."""
    command = [str(program_path(program)), *map(str, arguments)]
    result = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def from_root(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_prometheus_configuration_is_valid_and_reads_every_rule_file() -> None:
    assert f"{len(RULE_FILES)} rule files found" in run("promtool", "check", "config", "prometheus/prometheus.yml")


def test_the_example_of_a_targets_file_watches_a_host_once_uncommented() -> None:
    for file in ROOT.glob("prometheus/targets/*.yml"):
        lines = file.read_text().splitlines()
        example = lines[lines.index("#") + 1 :]
        group, *_ = yaml.safe_load("\n".join(line.removeprefix("# ") for line in example))
        assert set(group["labels"]) == {"host", "platform"} | ({"vserver"} if file.stem == "guest" else set()), file
        assert group["targets"], file
        for address in group["targets"]:
            assert re.fullmatch(r"[a-z0-9.]+" if file.stem == "ssh" else r"[a-z0-9.]+:\d+", address), file


def test_rules_are_valid() -> None:
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULE_FILES)


@pytest.mark.parametrize("file", TEST_FILES, ids=from_root)
def test_rules_pass_their_unit_tests(file: Path) -> None:
    run("promtool", "test", "rules", file)


def test_the_groups_in_group_eval_order_exist() -> None:
    """promtool ignores names of groups that don't exist."""
    for file in TEST_FILES:
        tests = yaml.load(file.read_text(), yaml.CSafeLoader)
        rules = [yaml.load((file.parent / name).read_text(), yaml.CSafeLoader) for name in tests["rule_files"]]
        there = {group["name"] for rule_file in rules for group in rule_file["groups"]}
        assert set(tests.get("group_eval_order", [])) <= there, file


def test_every_rule_file_has_unit_tests() -> None:
    """Except rules of applications added by users: the auction site's represent them."""
    written = [file for pattern in WRITTEN for file in ROOT.glob(pattern)]
    assert [from_root(file) for file in written if not unit_tests(file)] == []
    assert set(TEST_FILES) <= {tests for file in RULE_FILES for tests in unit_tests(file)} | OF_SEVERAL


def unit_tests(file: Path) -> list[Path]:
    """promtool's test files for NAME.yml: NAME.yml, or NAME_PART.yml for each part of it."""
    folder = ROOT / file.relative_to(ROOT).parts[0] / "tests"
    return [tests for tests in TEST_FILES if tests in {folder / file.name, *folder.glob(f"{file.stem}_*.yml")}]
