"""A fake xentrace that records its arguments and runs the test's script."""

import os
from pathlib import Path

_SCRIPT = """#!/bin/sh
folder=$(dirname "$0")
echo "$*" >> "$folder/asked"
while [ $# -gt 1 ]; do shift; done
file=$1
. "$folder/does.sh"
"""


class FakeXentrace:
    """A folder for PATH with a program `xentrace` that writes a file, or runs a shell script with $file."""

    def __init__(self, folder: Path, trace: bytes) -> None:
        self.folder = folder / "fake-xentrace"
        self.folder.mkdir()
        program = self.folder / "xentrace"
        program.write_text(_SCRIPT)
        program.chmod(0o755)
        self.writes(trace)
        self.does('cat "$folder/trace" > "$file"')

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self.folder), os.environ["PATH"]])

    def writes(self, trace: bytes) -> None:
        (self.folder / "trace").write_bytes(trace)

    def does(self, script: str) -> None:
        (self.folder / "does.sh").write_text(f"{script}\n")

    def asked(self) -> list[str]:
        asked = self.folder / "asked"
        return asked.read_text().splitlines() if asked.exists() else []
