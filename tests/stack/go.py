"""A stand-in for the Go that builds programs, in a cache of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from deploy import go_programs

# Builds what it is asked for once a file is there, or fails with what is in the file.
GO = """\
#!/bin/sh
echo "$GOCACHE" >> "{folder}/started"
while [ "$1" != -o ]; do shift; done
built=$2; shift 2
until [ -e "{folder}/go-on" ]; do sleep 0.1; [ -d "{folder}" ] || exit 1; done
[ -s "{folder}/go-on" ] && cat "{folder}/go-on" >&2 && exit 1
mkdir -p "$built" "$GOCACHE"
for package in "$@"; do
  name=${{package%/v[0-9]*}}; name=${{name##*/}}
  cp "{folder}/programs/$name" "$built/$name" || echo "$package" > "$built/$name"
done
"""


class Go:
    """The stand-in. `programs` are what it gives as built, by name; for others, a file with the package's name."""

    def __init__(self, folder: Path, programs: Mapping[str, Path]) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        pin = hashlib.sha256(go_programs.TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]
        go = self.cache / "go" / f"toolchain-{pin}" / "go" / "bin" / "go"
        go.parent.mkdir(parents=True)
        go.write_text(GO.format(folder=folder))
        go.chmod(0o755)
        (folder / "programs").mkdir()
        for name, program in programs.items():
            (folder / "programs" / name).symlink_to(program)

    def go_on(self, complaint: str = "") -> None:
        """Let builds end, from now on: well, or with this complaint."""
        (self.folder / "go-on").write_text(complaint)

    def builds(self) -> list[str]:
        """For each build that has begun, the folder of what was compiled before."""
        started = self.folder / "started"
        return started.read_text().splitlines() if started.exists() else []
