"""Thresholds of prometheus/settings.yml and replacements of them, in the rules."""

from pathlib import Path

from alerts.generator import thresholds
from alerts.generator.build import CHECKOUT
from deploy.documents import FileError
from tests.support.refusals import assert_refused


def test_other_thresholds_are_in_the_rules(tmp_path: Path) -> None:
    own = tmp_path / "settings.yml"
    own.write_text("guestFlappingStarts: 5\nhostOverheadHighShare: 0.4\n")
    changed = []
    for path, text in thresholds.rules(CHECKOUT, thresholds.read(CHECKOUT, own)).items():
        changed += [line.strip() for line in set(text.splitlines()) - set((CHECKOUT / path).read_text().splitlines())]
    assert sorted(changed) == [
        "0.4  # hostOverheadHighShare",
        "> 0.4  # hostOverheadHighShare",
        "vserver:starts:count1h >= 5  # guestFlappingStarts",
    ]


def test_a_threshold_that_is_none_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "settings.yml"
    for text, said in {
        "guestFlapingStarts: 5": "1: guestFlapingStarts: no such threshold; did you mean guestFlappingStarts?",
        "guestFlappingStarts: many": "1: guestFlappingStarts: should be a valid number",
        "guestFlappingStarts: 0": "1: guestFlappingStarts: should be greater than 0, not '0'",
    }.items():
        own.write_text(text)
        message = assert_refused(FileError, "", thresholds.read, CHECKOUT, own)
        assert message.startswith(f"{own}:{said}")
    assert_refused(
        FileError, "no rule has unread", thresholds.rules, CHECKOUT, thresholds.read(CHECKOUT) | {"unread": 1}
    )
    assert_refused(FileError, "is not in prometheus/settings.yml", thresholds.rules, CHECKOUT, {})
