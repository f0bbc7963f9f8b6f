"""One archive with the exporters and a Python, for systems with an old Python: make bundle.

It contains a standalone CPython for glibc 2.17 or newer, relocatable, without parts that exporters don't use; the
exporters' dependencies as their authors' wheels; deploy/packages/bundle: install, remove, init script; and an SBOM
(CycloneDX), which is also written next to the archive.
"""

import argparse
import gzip
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deploy import StackError, go_programs
from deploy.exporters import FOLDERS
from deploy.packages import deb, sbom
from deploy.parts import EXPORTERS
from deploy.places import UnavailableError
from deploy.programs import CHECKOUT, ProgramsError, releases
from deploy.programs.catalogue import PYTHON

PACKAGING = CHECKOUT / "deploy" / "packages"
GLIBC = (2, 17)
MACHINES = {62: "x86_64", 183: "aarch64"}  # by e_machine of an ELF file
# Large parts of the standalone Python that no exporter imports; then the same for its library.
UNUSED = ["include", "lib/itcl*", "lib/libpython*", "lib/libtcl*", "lib/libtk*", "lib/pkgconfig", "lib/tcl*"]
UNUSED += ["lib/thread*", "lib/tk*", "share"]
UNUSED_MODULES = ["__phello__", "config-*", "ensurepip", "idlelib", "lib-dynload/_t*", "lib2to3", "pydoc_data"]
UNUSED_MODULES += ["site-packages/*", "test", "tkinter", "turtledemo", "**/__pycache__"]


class BundleError(StackError):
    """The archive can't be made."""


def build(target: Path, python: Path) -> Path:
    """Make the archive in the folder `target` from a standalone CPython, which isn't changed; return its path.

    Raises `BundleError`.
    """
    interpreter = _interpreter(python)
    machine = _machine(interpreter)
    name = f"virtscope-{deb.version()}-linux-{machine}"
    with tempfile.TemporaryDirectory(prefix="virtscope-bundle-") as folder:
        root = Path(folder) / name
        library = _copy_python(python, interpreter.name, root / "python")
        _add_dependencies(library / "site-packages", interpreter.name.removeprefix("python"), machine)
        shutil.copytree(CHECKOUT / "exporters/virtscope", library / "site-packages/virtscope", ignore=deb.NO_SOURCE)
        _require_old_glibc(root)
        _add_programs(root, machine)
        document = sbom.of_archive(name, root / "python/bin" / interpreter.name)
        (root / "sbom.cdx.json").write_text(document)
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{name}.cdx.json").write_text(document)
        archive = target / f"{name}.tar.gz"
        _pack(root, archive)
    return archive


def _interpreter(python: Path) -> Path:
    """The program of a standalone CPython, such as bin/python3.13; other names are links or copies."""
    found = [file for file in python.glob("bin/python3.*") if re.fullmatch(r"python3\.\d+", file.name)]
    if len(found) != 1 or not (python / "lib" / found[0].name / "os.py").exists():
        raise BundleError(
            f"{python} is no standalone CPython: it has no bin/python3.N with its library in lib/python3.N"
        )
    return found[0]


def _machine(program: Path) -> str:
    with program.open("rb") as file:
        header = file.read(20)
    machine = MACHINES.get(int.from_bytes(header[18:20], "little"))
    if header[:4] != b"\x7fELF" or machine is None:
        raise BundleError(f"{program} is no program for Linux on {' or '.join(MACHINES.values())}")
    return machine


def _copy_python(python: Path, name: str, target: Path) -> Path:
    """Copy the used parts of the CPython; return its library."""
    unused = {file for pattern in UNUSED for file in python.glob(pattern)}
    unused |= {file for pattern in UNUSED_MODULES for file in (python / "lib" / name).glob(pattern)}
    unused |= set(python.glob("bin/*")) - {python / "bin" / name}
    shutil.copytree(
        python, target, symlinks=True, ignore=lambda folder, names: {n for n in names if Path(folder, n) in unused}
    )
    (target / "bin/python3").symlink_to(name)
    library = target / "lib" / name
    (library / "site-packages").mkdir(exist_ok=True)
    return library


def _add_dependencies(site: Path, version: str, machine: str) -> None:
    """Install the exporters' pinned dependencies for that Python, which may be for another architecture."""
    platforms = [f"--platform={tag}_{machine}" for tag in ("manylinux_2_17", "manylinux2014")]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += [f"--target={site}", "--only-binary=:all:", f"--python-version={version}", "--implementation=cp", *platforms]
    pip += ["--require-hashes", f"--requirement={CHECKOUT / 'requirements/exporters.txt'}"]
    done = subprocess.run(pip, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise BundleError(f"the exporters' dependencies can't be had for Python {version}: {done.stderr.strip()}")
    shutil.rmtree(site / "bin", ignore_errors=True)


def _require_old_glibc(root: Path) -> None:
    """Raise `BundleError` if a program or a library needs a newer glibc than promised."""
    for file in root.rglob("*"):
        if file.is_symlink() or not file.is_file():
            continue
        content = file.read_bytes()
        if content.startswith(b"\x7fELF"):
            newest = max(((2, int(minor)) for minor in re.findall(rb"GLIBC_2\.(\d+)", content)), default=GLIBC)
            if newest > GLIBC:
                raise BundleError(f"{file.relative_to(root)} needs glibc {newest[0]}.{newest[1]}")


def _add_programs(root: Path, machine: str) -> None:
    """Add the scripts for administrators, and the files that they install."""
    for file in ("README", "init", "install", "remove"):
        text = (PACKAGING / "bundle" / file).read_text()
        (root / file).write_text(text.replace("@MACHINE@", machine).replace("@VERSION@", deb.version()))
    shutil.copy(CHECKOUT / "LICENSE", root)
    for folder in ("bin", "flags", "systemd"):
        (root / folder).mkdir()
    (root / "bin/python").symlink_to("../python/bin/python3")
    ports = {part.name: str(part.default_port) for part in EXPORTERS}
    for exporter, package in FOLDERS.items():
        name = f"{exporter}-exporter"
        program = root / "bin" / name
        program.write_text(
            f"#!/opt/virtscope/python/bin/python3 -I\nfrom virtscope.{package}.__main__ import main\n\nmain()\n"
        )
        shutil.copy(CHECKOUT / f"exporters/systemd/{name}.service", root / "systemd")
        flags = (PACKAGING / "exporter.flags").read_text()
        (root / "flags" / f"{name}.env").write_text(flags.replace("@NAME@", name).replace("@PORT@", ports[name]))
        program.chmod(0o755)
    for file in ("install", "remove"):
        (root / file).chmod(0o755)


def _pack(root: Path, archive: Path) -> None:
    """Pack the folder reproducibly: the same content gives the same bytes."""
    date = deb.source_date()

    def alike(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = date
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
        return member

    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=date, fileobj=file) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in [root, *sorted(root.rglob("*"))]:
            tar.add(path, str(path.relative_to(root.parent)), recursive=False, filter=alike)


def standalone_python(target: Path, architecture: str = "") -> None:
    """Put a standalone CPython into the folder `target`: its official release, or else the one in a Go module.

    architecture: if not this machine's. Raises `ProgramsError`.
    """
    try:
        releases.unpack(PYTHON, target, architecture)
    except UnavailableError as error:
        print(f"{error}; building one from a Go module instead", file=sys.stderr)
        try:
            command = [go_programs.path("standalone-python"), target]
            if architecture not in {"", releases.architecture()}:
                command.append(go_programs.standalone_python_files(architecture))
            subprocess.run(command, check=True)
        except UnavailableError as also:
            raise ProgramsError(f"{error}; {also}") from None


def main() -> int:
    parser = argparse.ArgumentParser(description="Make an archive of the exporters with a Python of their own.")
    parser.add_argument("folder", type=Path, help="where to put it")
    parser.add_argument("--python", type=Path, help="folder of a standalone CPython, in place of the official release")
    parser.add_argument("--architecture", choices=sorted(PYTHON.sha256), default="", help="default: this machine's")
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="virtscope-python-") as folder:
            python = given.python and given.python.absolute()
            if not python:
                python = Path(folder) / "python"
                standalone_python(python, given.architecture)
            print(build(given.folder, python))
    except StackError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
