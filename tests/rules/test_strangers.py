"""Series that none of our exporters exposes, on separate hosts next to those of the unit tests of rules and alerts.

A target may expose a metric twice, in series that differ by an additional label. If a rule drops or writes that label
on one side of a join, two partners match, and the rule fails for all hosts. So the test of each rule file runs with a
stranger for each label that its rules write, and for an unknown label: no rule may fail.
"""

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.rules.test_expressions import seconds
from tests.support.program import program_path

ROOT = Path(__file__).resolve().parents[2]
RULES = {file.stem for file in (ROOT / "prometheus" / "rules").rglob("*.yml")} - {"derived"} | {"derived_applications"}
ALERTS = {file.stem for file in (ROOT / "alerts" / "rules").glob("*.yml")}
# Only Prometheus itself makes these, or gives targets these labels.
OWN = re.compile(r'ALERTS|up|scrape_\w+|.*\bjob="(?:prometheus|alertmanager|stack)".*')
UNKNOWN = "label_of_its_own"


def test_no_rule_fails_for_what_a_stranger_says_twice(tmp_path: Path) -> None:
    promtool = str(program_path("promtool"))
    files = [
        file
        for part, names in (("prometheus", RULES), ("alerts", ALERTS))
        for file in sorted((ROOT / part / "tests").glob("*.yml"))
        if file.stem in names
    ]
    assert len(files) >= len(RULES | ALERTS) - 2, files  # history.yml and tests have no tests of the same name

    def run(file: Path) -> str:
        hostile = tmp_path / f"{file.parent.parent.name}-{file.name}"
        hostile.write_text(yaml.safe_dump(with_strangers(yaml.safe_load(file.read_text()), file.parent)))
        ended = subprocess.run([promtool, "test", "rules", str(hostile)], capture_output=True, text=True, check=False)
        failed = re.findall(r"rule: .*|err.*", ended.stdout + ended.stderr)
        return "" if ended.returncode == 0 else f"{file.name}: {failed or ended.stdout + ended.stderr}"

    with ThreadPoolExecutor(2) as pool:
        failures = [failure for failure in pool.map(run, files) if failure]
    assert failures == []


def with_strangers(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The test file without its expectations, and with two additional series per series and label."""
    files = [file for pattern in content["rule_files"] for file in (folder / pattern).parent.glob(Path(pattern).name)]
    labels = sorted({*written_by("\n".join(file.read_text() for file in files)), "platform", "severity", UNKNOWN})
    tests = []
    for test in content["tests"]:
        given = test["input_series"]
        more = [each for series in given for label in labels for each in strangers(series, label)]
        nothing = {"expr": "vector(1)", "eval_time": last(test), "exp_samples": [{"labels": "{}", "value": 1}]}
        tests.append({"interval": test["interval"], "input_series": [*given, *more], "promql_expr_test": [nothing]})
    return {**content, "rule_files": [str(file) for file in files], "tests": tests}


def written_by(rules: str) -> list[str]:
    """The labels that joins add or functions write, which a series may already have."""
    joins = re.findall(r"group_(?:left|right) ?\(([^()]*)\)", rules)
    brought = {label for listed in joins for label in re.split(r"\W+", listed)}
    written = set(re.findall(r"""label_join\((?:[^()]|\([^()]*\))*?,\s*['"](\w+)['"]""", rules))
    written |= set(re.findall(r"""['"](\w+)['"],\s*['"][^'"]*['"],\s*['"]\w*['"]""", rules))
    return sorted((brought | written) - {""})


def strangers(series: dict[str, Any], label: str) -> list[dict[str, Any]]:
    """Two copies of a series on a separate host for this label, which differ in the label; no copies of records."""
    written = series["series"].strip()
    found = re.fullmatch(r"(?P<name>\w+)\{(?P<labels>.*)\}", written)
    if (
        found is None
        or OWN.fullmatch(written)
        or OWN.fullmatch(found["name"])
        or (label != "platform" and re.search(rf"\b{label}=", found["labels"]))
    ):
        return []
    labels = re.sub(r'\bhost="([^"]*)"', rf'host="{label}-\1"', found["labels"])
    without = re.sub(rf'\b{label}="[^"]*",?', "", labels).rstrip(",")
    values = ("base", "cgroup") if label == "platform" else ("a", "b")
    return [{**series, "series": f'{found["name"]}{{{without},{label}="{value}"}}'} for value in values]


def last(test: dict[str, Any]) -> str:
    """The latest time that the test evaluates, within the first five minutes."""
    times = [case["eval_time"] for kind in ("promql_expr_test", "alert_rule_test") for case in test.get(kind, [])]
    return f"{min(max(seconds(str(time)) for time in times), 300)}s"
