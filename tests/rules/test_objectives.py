"""The output of `make rules`: committed files are up to date, and other inputs work.

The rules of alerts/objectives/auction.yml have their own unit tests, alerts/tests/auction.yml.
"""

import shutil
from pathlib import Path

import pytest
import yaml

from alerts.generator import build
from deploy.documents import FileError
from tests.rules.test_rules import run
from tests.support.program import require_sloth

OTHER_INPUTS = Path(__file__).parent / "other_inputs"


@pytest.fixture(scope="module", autouse=True)
def sloth() -> None:
    """Sloth, which CI builds if it isn't cached."""
    require_sloth()


@pytest.mark.timeout(1800)
def test_committed_rules_are_up_to_date() -> None:
    stale = build.stale(build.read(build.CHECKOUT), build.CHECKOUT)
    assert stale == [], "run `make rules` and commit its changes"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with other inputs, and the rules generated from them."""
    shutil.copytree(OTHER_INPUTS, tmp_path, dirs_exist_ok=True)
    build.write(build.read(tmp_path), tmp_path, tmp_path)
    return tmp_path


def test_what_sloths_own_dashboards_read_is_kept(checkout: Path) -> None:
    groups = yaml.safe_load((checkout / "alerts/generated/shop.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "sloth_slo" in rule.get("labels", {})]
    records = {(rule["record"], rule["labels"]["sloth_slo"]) for rule in rules}
    read = ["sloth_slo_info", "slo:objective:ratio", "slo:time_period:days", "slo:error_budget:ratio"]
    read += ["slo:current_burn_rate:ratio", "slo:period_error_budget_remaining:ratio", "slo:sli_error:ratio_rate5m"]
    objectives = {objective for _, objective in records}
    assert objectives
    assert {(name, objective) for name in read for objective in objectives} <= records


def test_edited_missing_and_left_over_files_are_stale_and_invalid_input_changes_nothing(checkout: Path) -> None:
    shop, requests = checkout / "alerts/generated/shop.yml", checkout / "prometheus/rules/generated/requests.yml"
    inputs = build.read(checkout)
    assert build.stale(inputs, checkout) == []

    shop.write_text(shop.read_text().replace("14.4", "144"))
    left_over = checkout / "alerts/generated/renamed-since.yml"
    left_over.write_text("groups: []\n")
    requests.unlink()
    assert build.stale(inputs, checkout) == sorted([shop, left_over, requests])

    build.write(inputs, checkout, checkout)
    assert build.stale(inputs, checkout) == []
    assert not left_over.exists()

    objectives = checkout / "alerts/objectives/shop.yml"
    objectives.write_text(objectives.read_text().replace("0.999", "99.9"))
    with pytest.raises(FileError):
        build.read(checkout)
    assert shop.is_file()


def test_rules_of_other_inputs_are_valid_and_do_what_their_unit_tests_say(checkout: Path) -> None:
    files = [*checkout.glob("alerts/generated/*.yml"), *checkout.glob("prometheus/rules/generated/*.yml")]
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", *files)
    run("promtool", "test", "rules", checkout / "shop_test.yml", checkout / "requests_test.yml")
