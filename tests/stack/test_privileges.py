"""Files that root's `make up` hands over to nobody, and files that nobody's processes can't get."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy import privileges
from tests.support.needs import need_root
from tests.support.privileges import NOBODY, python_of_everybody

pytestmark = pytest.mark.system

SWAPS = 300  # attempts to get hold of a file
# As nobody: repeatedly swap a folder for a link to the folder of a secret, and back.
SWAP = """
import os, sys
folder, secrets = sys.argv[1:]
print("ready", flush=True)
while True:
    os.rename(f"{folder}/block", f"{folder}/aside")
    os.symlink(secrets, f"{folder}/block")
    os.unlink(f"{folder}/block")
    os.rename(f"{folder}/aside", f"{folder}/block")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of root's that is accessible to everyone."""
    need_root("gives files away")
    with tempfile.TemporaryDirectory(prefix="virtscope") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def secret(place: Path) -> Path:
    file = place / "secrets" / "key"
    file.parent.mkdir()
    file.write_text("secret")
    file.chmod(0o600)
    return file


@pytest.fixture
def data(place: Path) -> Path:
    """A part's data folder that has been handed over, with a block in it."""
    folder = place / "data"
    (folder / "block").mkdir(parents=True)
    for name in ("key", *map(str, range(200))):
        (folder / "block" / name).touch()
    privileges.hand_over(folder)
    return folder


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_a_part_owns_all_of_its_folder_which_is_made_if_missing(place: Path, data: Path) -> None:
    assert owners(data) == {NOBODY}
    privileges.hand_over(place / "new" / "folder")
    assert [(place / name).stat().st_uid for name in ("new", "new/folder")] == [0, NOBODY]
    # An interrupted handover is completed.
    os.chown(data, 0, 0)
    (data / "later").mkdir()
    (data / "later" / "file").touch()
    privileges.hand_over(data)
    assert owners(data) == {NOBODY}


def test_a_folder_on_another_disk_is_handed_over(place: Path) -> None:
    (place / "disk" / "block").mkdir(parents=True)
    (place / "data").symlink_to(place / "disk")
    privileges.hand_over(place / "data")
    assert owners(place / "disk") == {NOBODY}


def test_nobody_gets_no_file_of_root_s_by_swapping_folders(data: Path, secret: Path) -> None:
    command: list[str | Path] = [python_of_everybody(NOBODY, "pass"), "-c", SWAP, data, secret.parent]
    as_nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with subprocess.Popen(command, stdout=subprocess.PIPE, **as_nobody) as swapping:
        try:
            assert swapping.stdout is not None
            assert swapping.stdout.readline()
            for _ in range(SWAPS):
                privileges.hand_over(data)
                assert secret.stat().st_uid == secret.parent.stat().st_uid == 0
            assert swapping.poll() is None
        finally:
            swapping.kill()


def test_links_give_nothing_away(data: Path, secret: Path) -> None:
    """Whether the folder belongs to nobody already or to root. Root's files that nobody moved into it are kept too."""
    (data / "file").symlink_to(secret)
    (data / "folder").symlink_to(secret.parent)
    os.link(secret, data / "hard")
    moved = secret.with_name("another")
    moved.touch()
    moved = moved.rename(data / "block" / "moved")
    for owner in (NOBODY, 0):
        os.chown(data, owner, owner)
        privileges.hand_over(data)
        assert [path.stat().st_uid for path in (secret, secret.parent, moved, data)] == [0, 0, 0, NOBODY]


def test_a_log_of_nobody_s_is_made_and_continued(data: Path) -> None:
    for line in (b"first\n", b"second\n"):
        with privileges.append_to(data / "error.log") as log:
            log.write(line)
    assert (data / "error.log").read_text() == "first\nsecond\n"
    assert (data / "error.log").stat().st_uid == NOBODY


def test_nothing_else_is_written_to_in_place_of_a_log(data: Path, secret: Path) -> None:
    (data / "link.log").symlink_to(secret)
    os.link(secret, data / "hard.log")
    os.mkfifo(data / "pipe.log")
    shutil.chown(data / "pipe.log", NOBODY)
    for name in ("link.log", "hard.log", "pipe.log"):
        with pytest.raises(OSError, match=name):
            privileges.append_to(data / name)
    assert secret.read_text() == "secret"
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)
