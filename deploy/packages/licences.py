"""Writes the licence of every pinned dependency to requirements/licences.yml: make licences.

Installed Python packages declare their licence; if that isn't an SPDX expression, the list keeps a manual entry. Go
modules are those in the programs of `deploy/go`; their licences are detected from the files in their top folders.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

import yaml
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from deploy import go_programs
from deploy.go_programs import PROGRAMS, GoProgramsError
from deploy.programs import CHECKOUT

LIST = CHECKOUT / "requirements/licences.yml"
UNKNOWN = "UNKNOWN"
HEAD = """\
# The licence of every pinned dependency, as SPDX writes it: make licences.
"""
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


def pinned(requirements: str) -> set[str]:
    """The packages pinned in a file of requirements/."""
    return {_normal(name) for name in re.findall(r"(?m)^([\w.-]+)==", (CHECKOUT / requirements).read_text())}


def installed() -> dict[str, Distribution]:
    """The packages of this Python."""
    return {_normal(distribution.metadata["Name"]): distribution for distribution in distributions()}


def licence_of(distribution: Distribution) -> str | None:
    """A package's SPDX expression; None if missing or ambiguous, such as "BSD"."""
    metadata = distribution.metadata
    for field in ("License-Expression", "License"):
        try:
            return canonicalize_license_expression(metadata[field] or "")
        except InvalidLicenseExpression:
            continue
    classified = [name.rpartition(" :: ")[2] for name in metadata.get_all("Classifier", []) if "OSI Approved" in name]
    return _CLASSIFIERS.get(classified[0]) if len(classified) == 1 else None


def listed() -> Mapping[str, Mapping[str, str]]:
    """The list: licences of `python` packages and of `go` modules, by name."""
    found: Mapping[str, Mapping[str, str]] = yaml.safe_load(LIST.read_text())
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _python(known: Mapping[str, str]) -> dict[str, str]:
    names = set[str]().union(*(pinned(f"requirements/{file.name}") for file in LIST.parent.glob("*.txt")))
    here = installed()
    said = {name: licence_of(here[name]) for name in names if name in here}
    return {name: said.get(name) or known.get(name, UNKNOWN) for name in sorted(names)}


def _go(known: Mapping[str, str]) -> dict[str, str]:
    """Licences of Go modules; downloads hundreds of megabytes of sources."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="virtscope-licences-") as folder:
        for program in PROGRAMS:
            downloaded = go_programs.sources(program, Path(folder))
            scan = [go_programs.path("licences")]
            scanned = subprocess.run(scan, input=downloaded, check=True, capture_output=True, text=True).stdout
            found |= {module: " AND ".join(licences) for module, licences in json.loads(scanned).items()}
    return {module: found[module] or known.get(module, UNKNOWN) for module in sorted(found)}


def main() -> int:
    known = listed() if LIST.exists() else {"python": {}, "go": {}}
    try:
        found = {"python": _python(known["python"]), "go": _go(known["go"])}
    except GoProgramsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    LIST.write_text(HEAD + yaml.safe_dump(found, sort_keys=False))
    unknown = [name for names in found.values() for name, licence in names.items() if licence == UNKNOWN]
    if unknown:
        print(f"write into {LIST.name} what you have read: {' '.join(unknown)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
