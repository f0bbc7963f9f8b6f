"""A server's view of the machine: Debian's packages in their usual places, its own folders below /srv, nothing else.

So programs run unchanged without being installed, with the same paths as in the images of lab/compose.yaml, and a
compromised server exposes nothing. It needs root, like the cgroups; the server itself runs as nobody. All mounts are in
the server's own namespace, and disappear with it.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deploy import privileges, programs
from deploy.programs import Packages

CONFIG = Path(__file__).with_name("config")
SITE = Path(__file__).parents[1] / "site"
_ENCLOSE = Path(__file__).with_suffix(".sh").read_text()


def enclosed(
    state: Path, command: Sequence[str], packages: Packages = programs.LAB, beside: Sequence[str] = ("config", "site")
) -> list[str]:
    """A command that becomes this command, enclosed; `state` is the server's only writable folder, /srv/state.

    packages: visible to it.
    beside: readable folders next to `state`; a server's are its configuration and the site, from `prepare`.
    """
    mounts = [("rw", state, "state"), *(("ro", state.parent / name, name) for name in beside)]
    given = [str(word) for mount in mounts for word in mount]
    fixed = [str(privileges.NOBODY), str(programs.root(packages))]
    return ["unshare", "--mount", "sh", "-c", _ENCLOSE, "enclose", *fixed, *given, "--", *command]


def prepare(folder: Path) -> None:
    """Copy the configuration and the site into `folder`, readable for everybody whatever the checkout's modes are."""
    for source in (CONFIG, SITE):
        target = folder / source.name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
