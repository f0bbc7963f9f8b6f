"""A fake xl (or xm) and a fake xentrace, which record their arguments."""

import os
import shutil
from pathlib import Path

# Answers are files named like the arguments.
_XL = """#!/bin/sh
folder=$(dirname "$0")/answers
echo "$*" >> "$folder/../asked"
[ -e "$folder/$* hangs" ] && exec sleep 600
cat "$folder/$* says" >&2 2>/dev/null || [ -e "$folder/$*" ] || echo "command not implemented" >&2
exec cat "$folder/$*" 2>/dev/null
"""
_XENTRACE = """#!/bin/sh
folder=$(dirname "$0")
echo "$*" >> "$folder/asked"
while [ $# -gt 1 ]; do shift; done
file=$1
. "$folder/does.sh"
"""


class _Program:
    """A folder for PATH with a program."""

    def __init__(self, folder: Path, name: str, script: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        program = folder / name
        program.write_text(script)
        program.chmod(0o755)

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self.folder), os.environ["PATH"]])

    def asked(self) -> list[str]:
        """The arguments of each run since the last call."""
        noted = self.folder / "asked"
        asked = noted.read_text().splitlines() if noted.exists() else []
        noted.write_text("")
        return asked


class FakeXl(_Program):
    """A program `name` that gives the test's answers."""

    def __init__(self, folder: Path, answers: Path, name: str = "xl") -> None:
        super().__init__(folder / "fake-xl", name, _XL)
        self.answers = self.folder / "answers"
        shutil.copytree(answers, self.answers)

    def answer(self, command: str, text: str) -> None:
        (self.answers / command).write_text(text)

    def complain(self, command: str, text: str) -> None:
        (self.answers / f"{command} says").write_text(text)

    def hang(self, command: str) -> None:
        (self.answers / f"{command} hangs").touch()


class FakeXentrace(_Program):
    """A program `xentrace` that writes a file, or runs a shell script with $file."""

    def __init__(self, folder: Path, trace: bytes) -> None:
        super().__init__(folder / "fake-xentrace", "xentrace", _XENTRACE)
        self.writes(trace)
        self.does('cat "$folder/trace" > "$file"')

    def writes(self, trace: bytes) -> None:
        (self.folder / "trace").write_bytes(trace)

    def does(self, script: str) -> None:
        (self.folder / "does.sh").write_text(f"{script}\n")
