"""The real xentop from Debian's Xen package, which is unpacked, not installed."""

import shutil
import tempfile
from pathlib import Path

from deploy import programs
from tests.xen.debian import Archive, BuildError

PACKAGE = "xen-utils-4.17"
PROGRAM = "usr/lib/xen-4.17/bin/xentop"


class XentopError(Exception):
    """xentop isn't available; the message says why."""


def find_xentop() -> Path:
    """Return xentop's path in the cache; the package is downloaded if it isn't there yet."""
    kept = programs.cache("bench") / PACKAGE
    if not (kept / PROGRAM).exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
                unpacked = Path(folder) / "root"
                Archive(Path(folder) / "apt").unpack(PACKAGE, unpacked)
                shutil.rmtree(kept, ignore_errors=True)
                unpacked.rename(kept)
        except (OSError, BuildError) as error:
            raise XentopError(f"{PACKAGE} can't be downloaded from Debian's archive: {error}") from error
    return kept / PROGRAM
