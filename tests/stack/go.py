"""A stand-in for Go's compiler, with its own cache."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from deploy import go_programs

# Builds the requested program once a file exists, or fails with the file's text.
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
    """The stand-in. `programs` are its build results by name; others are a file with the package's name."""

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
        """Let builds finish from now on: successfully, or with this error."""
        (self.folder / "go-on").write_text(complaint)

    def builds(self) -> list[str]:
        """For each started build, the folder of earlier compiled packages."""
        started = self.folder / "started"
        return started.read_text().splitlines() if started.exists() else []
