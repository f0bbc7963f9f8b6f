"""A fake xl (or xm) that gives the test's answers and records its arguments."""

import os
import shutil
from pathlib import Path

_SCRIPT = """#!/bin/sh
folder=$(dirname "$0")/answers
echo "$*" >> "$folder/../asked"
[ -e "$folder/$* hangs" ] && exec sleep 600
cat "$folder/$* says" >&2 2>/dev/null || [ -e "$folder/$*" ] || echo "command not implemented" >&2
exec cat "$folder/$*" 2>/dev/null
"""


class FakeXl:
    """A folder with a program `name`, whose answers are files named like its arguments."""

    def __init__(self, folder: Path, answers: Path, name: str = "xl") -> None:
        self.folder = folder / "fake-xl"
        self.answers = self.folder / "answers"
        shutil.copytree(answers, self.answers)
        program = self.folder / name
        program.write_text(_SCRIPT)
        program.chmod(0o755)

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self.folder), os.environ["PATH"]])

    def answer(self, command: str, text: str) -> None:
        (self.answers / command).write_text(text)

    def complain(self, command: str, text: str) -> None:
        (self.answers / f"{command} says").write_text(text)

    def hang(self, command: str) -> None:
        (self.answers / f"{command} hangs").touch()

    def asked(self) -> list[str]:
        noted = self.folder / "asked"
        asked = noted.read_text().splitlines() if noted.exists() else []
        noted.write_text("")
        return asked
