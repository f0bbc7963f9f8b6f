"""Reports as people keep them: saved from a terminal, pasted from a mail or a web page, without their first lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from profile_import import opreport, perf_script
from profile_import.opreport import Counted
from virtscope.perf import perf_report
from virtscope.perf.profile import Profile, without_scope
from virtscope.toolkit.collect import SourceMalformed

KINDS = {
    "opreport": "what OProfile's or Xenoprof's opreport printed, with or without -l",
    "perf-report": "what `perf report --stdio` printed",
    "perf-script": "what `perf script` printed",
}

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][0-9A-Z]|[=>78])|\x0f")
_BLANKS = {ord(blank): " " for blank in "\u00a0\u2007\u202f"} | {ord(nothing): None for nothing in "\u200b\ufeff"}
_QUOTE = re.compile(r"(?:> ?)+")


def parse(kind: str, lines: Iterable[str], events: Sequence[Counted] = ()) -> Profile:
    """Return the samples by place that a report of one of the KINDS has; only a perf-script is read line by line.

    Events are named as a live host's are, however a report's were sampled. `events` are those of an opreport that names
    none, in the columns' order. Raises SourceMalformed with the offending line and its number where one can't be
    understood, and where there are no samples.
    """
    if kind == "perf-script":
        profile = _live_names(perf_script.parse(map(_clean, lines)))
    elif kind == "perf-report":
        profile = _live_names(perf_report.parse(_unquoted(_clean("".join(lines)))).profile)
    else:
        profile = opreport.parse(_unquoted(_clean("".join(lines)).replace("\r", "")), events)
    if not profile:
        raise SourceMalformed(f"there are no samples in this {kind}: no row stands below its columns, or all have 0")
    return profile


def _clean(text: str) -> str:
    """Return the text without colours and other escapes of a terminal, and with plain blanks."""
    if "\x1b" in text or "\x0f" in text:
        text = _ESCAPE.sub("", text)
    return text if text.isascii() else text.translate(_BLANKS)


def _unquoted(text: str) -> str:
    """Return a mail's text without the marks of a quotation, if most of its lines have one."""
    lines = text.split("\n")  # other ends of lines may be in a name
    written = [line for line in lines if line.strip()]
    if 2 * sum(line.startswith(">") for line in written) <= len(written):
        return text
    return "\n".join(_QUOTE.sub("", line, count=1) if line.startswith(">") else line for line in lines)


def _live_names(profile: Profile) -> Profile:
    names = without_scope({place.event for place in profile})
    return {place._replace(event=names[place.event]): hits for place, hits in profile.items()}
