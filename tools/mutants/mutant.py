"""A change to one file, and the changes that are known to make no difference."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

EQUIVALENT = Path(__file__).with_name("equivalent.yml")


@dataclass(frozen=True)
class Change:
    """The lines that a mutant changes, without indent, before and after."""

    line: str
    mutant: str


@dataclass
class Mutant:
    """A file with one change, which is made when it is wanted."""

    file: str  # below the checkout
    original: str
    line: str  # the first of those that it changes, without indent
    place: str  # what is changed there; with the line, it names this one mutant
    make: Callable[[], str]

    @cached_property
    def text(self) -> str:
        """The changed file."""
        return self.make()

    @property
    def order(self) -> str:
        """Where it comes in its file's sample: at random, but everywhere the same and whatever else is in the file."""
        return hashlib.sha256(f"{self.file}\0{self.line}\0{self.place}".encode()).hexdigest()

    @cached_property
    def change(self) -> Change:
        """What it changes."""
        _, _, *lines = difflib.unified_diff(self._original_lines, self._lines, n=0)
        removed, added = ([plain(line[1:]) for line in lines if line.startswith(sign)] for sign in "-+")
        return Change("\n".join(removed), "\n".join(added))

    def diff(self) -> str:
        """The change as `diff -u` shows it, with one line of context."""
        shown = difflib.unified_diff(self._original_lines, self._lines, self.file, self.file, lineterm="", n=1)
        return "\n".join(shown)

    @property
    def _original_lines(self) -> list[str]:
        return self.original.splitlines()

    @property
    def _lines(self) -> list[str]:
        return self.text.splitlines()


def plain(line: str) -> str:
    """A line without indent, and with single blanks."""
    return " ".join(line.split())


def equivalents() -> dict[str, dict[Change, str]]:
    """For each file, the changes that make no difference a test should see, and why."""
    listed = yaml.safe_load(EQUIVALENT.read_text()) or {}
    return {
        file: {Change(change["line"], change["mutant"]): change["why"] for change in changes}
        for file, changes in listed.items()
    }
