"""Gets third-party programs of the stack, the lab and the tests, each from the first source that works:

1. the official release pinned in deploy/programs/catalogue.toml,
2. the distribution's packages from its mirrors, on systems with apt,
3. for Telegraf and cAdvisor, which no distribution has, a build from their Go modules (deploy/go_programs.py).

Programs are kept below `.stack/programs` and run as `.stack/bin/NAME`, until the catalogue changes or
`make tools-update` checks again. Only the standard library is used: this runs before anything is installed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy import go_programs
from deploy.go_programs import GoProgramsError
from deploy.places import CHECKOUT, ProgramsError, UnavailableError, cache, exclusively
from deploy.programs import catalogue, debian, releases
from deploy.programs.catalogue import BENCHMARKS, LAB, LMBENCH, STRESS_NG, SUITES, TESTS, WEB_SERVER, Packages, Suite

__all__ = [
    "BENCHMARKS", "CHECKOUT", "LAB", "LMBENCH", "STRESS_NG", "SUITES", "TESTS", "WEB_SERVER",
    "Got", "NoWayError", "Packages", "ProgramsError",
    "cache", "exclusively", "get", "got", "path", "root", "update", "versions",
]  # fmt: skip

BIN = CHECKOUT / ".stack" / "bin"
PROGRAMS = CHECKOUT / ".stack" / "programs"
START_SECONDS = 60  # for a program to print its version, on a busy machine
LAB_MOUNT_POINTS = ("dev", "srv/config", "srv/site", "srv/state", "tmp")  # of lab/servers; not in the packages
_LAUNCHERS = {  # for packages' programs that need a wrapper
    "prometheus": Path(__file__).with_name("debian-prometheus.sh"),
    "alertmanager": Path(__file__).with_name("debian-alertmanager.sh"),
}
_SUITE_OF = {program: suite for suite in SUITES for program in suite.release.files}


@dataclass(frozen=True)
class Got:
    """The source of an installed suite."""

    version: str
    source: str  # such as "official release"
    because: str = ""  # why no better source worked
    folder: str = ""  # below .stack/programs/SUITE


class NoWayError(ProgramsError):
    """A program is unavailable from every source; `why` has the reason for each."""

    def __init__(self, title: str, why: str) -> None:
        super().__init__(
            f"cannot get {title}: {why}. For machines without internet there is {releases.MIRROR} (docs/install.md), "
            "and Docker: make compose-up for the stack, lab/compose.yaml for the lab's applications"
        )
        self.why = why


def path(program: str) -> Path:
    """A program of the catalogue, runnable from any working directory; fetched first if missing.

    Raises `ProgramsError` if it is unavailable, `KeyError` for a name that isn't in the catalogue.
    """
    get(_SUITE_OF[program])
    return BIN / program


def got(suite: Suite) -> Got | None:
    """The source of an installed suite; None if it isn't installed, or the catalogue has changed since."""
    try:
        record = json.loads(_record(suite).read_text())
    except FileNotFoundError:
        return None
    whole = record["wanted"] == _wanted(suite) and all((BIN / program).exists() for program in suite.release.files)
    return Got(**record["got"]) if whole else None


def get(*suites: Suite, since: float = 0) -> None:
    """Put these suites' programs into `.stack/bin` if missing. With `since` (Unix time), check their sources again.

    Raises `ProgramsError` with the reasons of all sources, for the first suite that is unavailable.
    """
    for suite in suites:
        if since or got(suite) is None:
            with exclusively(_record(suite).parent):
                if since or got(suite) is None:  # otherwise another process was first
                    _get(suite, since)


def get_if_possible(suite: Suite) -> None:
    """Like `get`, for a suite that the stack works without: after a failure, keeps the reason."""
    try:
        get(suite)
    except ProgramsError as error:
        refused(suite).parent.mkdir(parents=True, exist_ok=True)
        refused(suite).write_text(error.why if isinstance(error, NoWayError) else str(error))
    else:
        refused(suite).unlink(missing_ok=True)


def refused(suite: Suite) -> Path:
    """A file with the reason of the last failure of `get_if_possible`, if it failed."""
    return PROGRAMS / suite.name / "refused"


def why_missing(suite: Suite) -> str:
    """The reason of the last failure of `get_if_possible`."""
    return refused(suite).read_text() if refused(suite).exists() else "not fetched yet"


def root(packages: Packages) -> Path:
    """Folder with these packages unpacked as if it were `/`; fetched first if missing.

    Raises `ProgramsError` if they are unavailable.
    """
    return _unpacked(packages)[0]


def versions(packages: Packages) -> dict[str, str]:
    """The versions of the packages below `root`, by name; raises `ProgramsError` like `root`."""
    return _unpacked(packages)[1]


def update() -> None:
    """Check all sources again; raises `ProgramsError`."""
    now = time.time()
    get(*(suite for suite in SUITES if got(suite) is not None), since=now)
    refused(catalogue.GRAFANA).unlink(missing_ok=True)
    for packages in (LAB, BENCHMARKS, WEB_SERVER, LMBENCH, STRESS_NG, TESTS):
        if _record(packages).exists():
            _record(packages).unlink()
            debian.find(packages, since=now)


def _get(suite: Suite, since: float) -> None:
    folder = _record(suite).parent
    if os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise ProgramsError(f"{folder.parent} is on a file system mounted noexec: put the checkout on another one")
    complaints: list[str] = []
    ways: list[_Way] = [_from_release]
    ways += [_from_packages] if suite.packages else []
    ways += [_from_go] if suite.built_from_go else []
    for way in ways:
        try:
            found, launchers = way(suite, folder, since)
            _install(suite, found, launchers)
        except (UnavailableError, GoProgramsError) as error:
            complaints.append(str(error))
            continue
        break
    else:
        raise NoWayError(suite.title, "; ".join(complaints))
    found = Got(found.version, found.source, "; ".join(complaints), found.folder)
    _keep(_record(suite), {"wanted": _wanted(suite), "got": asdict(found)}, found.folder)


def _keep(record: Path, content: object, unpacked: str) -> None:
    """Write the record of the source atomically, and remove what was unpacked before."""
    new = record.with_suffix(".new")
    new.write_text(json.dumps(content, indent=1) + "\n")
    new.rename(record)
    for older in record.parent.iterdir():
        if older.is_dir() and older.name != unpacked:
            shutil.rmtree(older)


_Way = Callable[[Suite, Path, float], tuple[Got, dict[str, str]]]
"""Puts a suite's programs into a subfolder; returns their source, and for each the launcher in `.stack/bin`: a path in
that subfolder, or a script that begins with #! and contains FOLDER as a placeholder for it."""


def _from_release(suite: Suite, folder: Path, _since: float) -> tuple[Got, dict[str, str]]:
    release = suite.release
    name = f"release-{release.version}"
    if not (folder / name).is_dir():
        releases.unpack(release, folder / name)
    return Got(release.version, "official release", folder=name), dict(release.files)


def _from_packages(suite: Suite, folder: Path, since: float) -> tuple[Got, dict[str, str]]:
    packages = suite.packages
    assert packages is not None
    debs = debian.find(packages, since)
    name = f"packages-{debian.content(debs)}"
    if not (folder / name).is_dir():
        debian.unpack(debs, folder / name, _adapt)
    for program, file in packages.files.items():
        if not (folder / name / file).exists():
            raise UnavailableError(f"the packages of {debian.system()} have no {program}")
    launchers = {
        program: _LAUNCHERS[program].read_text() if program in _LAUNCHERS else file
        for program, file in packages.files.items()
    }
    [main] = packages.minimum
    version = next(deb.version for deb in debs if deb.name == main)
    return Got(version, f"package {main} of {debian.system()}", folder=name), launchers


def _from_go(suite: Suite, folder: Path, _since: float) -> tuple[Got, dict[str, str]]:
    module = go_programs.PROGRAMS[suite.name].module
    name = f"go-{module.content}"
    new = folder / f"{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    for program in suite.release.files:
        shutil.copyfile(go_programs.path(program), new / program)
        (new / program).chmod(0o755)
    if not (folder / name).is_dir():
        new.rename(folder / name)
    return Got(module.version, "built from its Go module", folder=name), {name: name for name in suite.release.files}


def _install(suite: Suite, found: Got, launchers: dict[str, str]) -> None:
    """Put the programs into `.stack/bin`; raises `UnavailableError` if one doesn't run here."""
    BIN.mkdir(parents=True, exist_ok=True)
    for program in suite.release.files:
        new = BIN / f"{program}.new"
        new.unlink(missing_ok=True)
        if launchers[program].startswith("#!"):
            new.write_text(launchers[program].replace("FOLDER", found.folder))
            new.chmod(0o755)
        else:
            new.symlink_to(Path("..", "programs", suite.name, found.folder, launchers[program]))
        _require_it_runs(new)
        new.replace(BIN / program)


def _require_it_runs(program: Path) -> None:
    try:
        said = subprocess.run(
            [program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            check=False, timeout=START_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{program.stem} does not run here: {error}") from None
    if said.returncode != 0:
        complaint = (said.stderr.strip().splitlines() or [f"it ends with status {said.returncode}"])[-1]
        raise UnavailableError(f"{program.stem} does not run here: {complaint}")


def _adapt(unpacked: Path) -> None:
    # Sources of time-zone tables, 13 to 200 MB, which no page loads.
    shutil.rmtree(unpacked / "usr/share/javascript/moment-timezone/data", ignore_errors=True)


def _unpacked(packages: Packages) -> tuple[Path, dict[str, str]]:
    """The folder of unpacked packages, and their versions by name."""
    record = _record(packages)
    folder = record.parent
    try:
        known = json.loads(record.read_text())
        if known["wanted"] == repr(packages):
            return folder / known["folder"], known["versions"]
    except FileNotFoundError:
        pass
    with exclusively(folder):
        debs = debian.find(packages)
        unpacked = folder / debian.content(debs)
        if not unpacked.is_dir():
            debian.unpack(debs, unpacked, _make_root)
        found = {deb.name: deb.version for deb in debs}
        _keep(record, {"wanted": repr(packages), "folder": unpacked.name, "versions": found}, unpacked.name)
    return unpacked, found


def _make_root(unpacked: Path) -> None:
    """Add other parts of `/`; from Debian 13 on, /lib64 with the loader is a link of base-files."""
    for name in LAB_MOUNT_POINTS:
        (unpacked / name).mkdir(parents=True, exist_ok=True)
    for merged in (unpacked / "usr").glob("lib*"):
        if merged.is_dir() and not (unpacked / merged.name).exists():
            (unpacked / merged.name).symlink_to(merged.relative_to(unpacked))


def _record(wanted: Suite | Packages) -> Path:
    return PROGRAMS / wanted.name / "got.json"


def _wanted(suite: Suite) -> str:
    """A digest of the suite's catalogue entry and other inputs, except the machine."""
    go = go_programs.PROGRAMS[suite.name].module.content if suite.built_from_go else ""
    launchers = "".join(file.read_text() for file in _LAUNCHERS.values())
    return hashlib.sha256(f"{suite}{go}{launchers}".encode()).hexdigest()[:12]
