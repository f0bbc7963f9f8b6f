"""Which changes are made to code and rules, in which order, and the list of those that make no difference."""

from __future__ import annotations

import pytest

from tools.mutants import code, rules
from tools.mutants.judges import judges
from tools.mutants.mutant import Change, Mutant, equivalents
from tools.mutants.trial import stale
from tools.programs import CHECKOUT

SOURCE = '''\
def share(part: float | None, of: int = 2, *, least: float = 0.5) -> float | None:
    """A share of 1."""
    if not part:
        raise ValueError(f"no part of {of + 1}")
    return max(part / of, least)
'''

RULES = """\
groups:
  - name: overhead
    rules:
      - alert: OverheadHigh
        expr: |
          rate(busy_seconds{mode!="idle"}[5m] offset 1m) / 4 >= 0.25  # of 4 CPUs
          or on (host) busy_seconds == 0
        for: 15m
        labels: {severity: warning, limit: "25"}
      - record: host:overhead:ratio5m
        expr: min_over_time(busy:ratio[5m]) <= bool 1e3
"""


def changes(mutants: list[Mutant]) -> set[Change]:
    return {mutant.change for mutant in mutants}


def test_code_is_changed_but_for_annotations_and_messages() -> None:
    first = "def share(part: float | None, of: int = {}, *, least: float = {}) -> float | None:"
    last = "return max(part {} of, least)"
    assert changes(list(code.mutants("share.py", SOURCE))) == {
        Change(first.format("2", "0.5"), first.format("3", "0.5")),
        Change(first.format("2", "0.5"), first.format("1", "0.5")),
        Change(first.format("2", "0.5"), first.format("2", "1.5")),
        Change(first.format("2", "0.5"), first.format("2", "-0.5")),
        Change("if not part:", "if part:"),
        Change("if not part:", "if not not part:"),
        Change(last.format("/"), last.format("*")),
    }


def test_thresholds_comparisons_and_waiting_times_of_rules_are_changed() -> None:
    found = changes(list(rules.mutants("rules.yml", RULES)))
    threshold = 'rate(busy_seconds{{mode!="idle"}}[5m] offset 1m) / {} {} {} # of 4 CPUs'
    as_it_is = threshold.format(4, ">=", 0.25)
    comparison = "or on (host) busy_seconds {} {}"
    last = "expr: min_over_time(busy:ratio[5m]) {} bool {}"
    assert found == {
        Change(as_it_is, threshold.format(3.2, ">=", 0.25)),
        Change(as_it_is, threshold.format(5, ">=", 0.25)),
        Change(as_it_is, threshold.format(4, ">", 0.25)),
        Change(as_it_is, threshold.format(4, "<", 0.25)),
        Change(as_it_is, threshold.format(4, ">=", 0.2)),
        Change(as_it_is, threshold.format(4, ">=", 0.3125)),
        Change(comparison.format("==", 0), comparison.format("!=", 0)),
        Change("for: 15m", "for: 450s"),
        Change("for: 15m", "for: 1800s"),
        Change(last.format("<=", "1e3"), last.format("<", "1e3")),
        Change(last.format("<=", "1e3"), last.format(">", "1e3")),
        Change(last.format("<=", "1e3"), last.format("<=", "800")),
        Change(last.format("<=", "1e3"), last.format("<=", "1250")),
    }


def test_other_lines_of_a_file_leave_the_order_of_samples_as_it_is() -> None:
    def in_order(source: str) -> list[Change]:
        return [mutant.change for mutant in sorted(code.mutants("share.py", source), key=lambda mutant: mutant.order)]

    longer = in_order("LIMIT = 3 + 4\n" + SOURCE + "# The end.\n")
    assert [change for change in longer if "LIMIT" not in change.line] == in_order(SOURCE)
    assert len(longer) > len(in_order(SOURCE))


@pytest.mark.parametrize(("file", "tests"), judges().items())
def test_every_file_has_tests_that_are_there(file: str, tests: list[str]) -> None:
    assert (CHECKOUT / file).is_file()
    assert [test for test in tests if (CHECKOUT / test).is_file()] == tests != []


def test_changes_that_make_no_difference_are_of_files_as_they_are_and_say_why() -> None:
    assert stale() == []
    assert equivalents().keys() <= judges().keys()
    assert all(why.strip() for changes in equivalents().values() for why in changes.values())
