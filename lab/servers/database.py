"""Every instance's initial database: made once, then copied."""

import hashlib
import shutil
import tempfile
from pathlib import Path

from deploy import privileges, programs
from deploy.programs import CHECKOUT
from lab.processes import Process, output
from lab.servers import enclosure
from lab.site import data

TEMPLATES = CHECKOUT / ".stack" / "lab" / "databases"
MARIADBD = ["/usr/sbin/mariadbd", "--defaults-file=/srv/config/mariadb.cnf"]
KEEPING_LITTLE = "--innodb-buffer-pool-size=8M"  # the minimum: pages of the database come from its disk
SYSTEM_TABLES = "usr/share/m*/m*_system_tables.sql"  # named mysql, since MariaDB 11 mariadb
SCHEMA = enclosure.SITE / "schema.sql"
MAKE_SECONDS, COPY_SECONDS = 600, 60  # on a busy machine


def copy_to(target: Path) -> None:
    """Make `target` a data folder of MariaDB, with the site's data and without users that can log in.

    Raises `LabError`.
    """
    output("the copy of the database", ["cp", "--archive", "--reflink=auto", template(), target], COPY_SECONDS)


def template() -> Path:
    """The data folder to copy; created if missing. Raises `LabError`."""
    # Named after everything that determines its content.
    mariadb = programs.versions(programs.LAB)["mariadb-server-core"]
    sources = [SCHEMA, Path(__file__), Path(data.__file__), data.WORDS, enclosure.CONFIG / "mariadb.cnf"]
    content = hashlib.sha256(mariadb.encode() + b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    made = TEMPLATES / content
    if not made.is_dir():
        with programs.exclusively(TEMPLATES):
            if not made.is_dir():  # another process may have been first
                _make(made)
    return made


def _make(target: Path) -> None:
    """Fill a new data folder; `target` appears complete or not at all."""
    with tempfile.TemporaryDirectory(prefix="make-", dir=TEMPLATES) as name:
        folder = Path(name)
        enclosure.prepare(folder)
        state = folder / "state"
        (state / "data" / "mysql").mkdir(parents=True)
        privileges.hand_over(state)
        [system_tables] = programs.root(programs.LAB).glob(SYSTEM_TABLES)
        statements = ["USE mysql;", system_tables.read_text(), SCHEMA.read_text(), *data.sql()]
        # Nobody needs an interrupted result, so flushing each step to disk would only cost time. A slow shutdown purges
        # and merges, so that copies start without this work.
        flags = ("--bootstrap", "--innodb-flush-log-at-trx-commit=0", "--innodb-fast-shutdown=0")
        mariadbd = enclosure.enclosed(state, [*MARIADBD, *flags])
        with Process("the making of the database", mariadbd, fed=True) as process:
            process.send("\n".join(statements))
            process.end_input()
            if "ERROR" in process.wait(MAKE_SECONDS):
                raise process.failure("has failed")
        for older in TEMPLATES.iterdir():
            if older.is_dir() and older != folder:
                shutil.rmtree(older)
        (state / "data").rename(target)
