"""Changes to one file, and known changes without effect."""

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
    """A file with one change, which is made on demand."""

    file: str  # below the checkout
    original: str
    line: str  # the first changed line, without indent
    place: str  # the change there; identifies this mutant together with the line
    make: Callable[[], str]

    @cached_property
    def text(self) -> str:
        """The changed file."""
        return self.make()

    @property
    def order(self) -> str:
        """Sort key for samples: random, but the same on all machines, and independent of the rest of the file."""
        return hashlib.sha256(f"{self.file}\0{self.line}\0{self.place}".encode()).hexdigest()

    @cached_property
    def change(self) -> Change:
        """The changed lines."""
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
    """For each file, changes without an effect that a test should notice, with the reason."""
    listed = yaml.safe_load(EQUIVALENT.read_text()) or {}
    return {
        file: {Change(change["line"], change["mutant"]): change["why"] for change in changes}
        for file, changes in listed.items()
    }
