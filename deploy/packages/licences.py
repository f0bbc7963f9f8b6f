"""Writes the licence of every pinned Python package to requirements/licences.yml: make licences.

Installed packages declare their licence; if that isn't an SPDX expression, the list keeps a manual entry.
"""

import re
import sys
from importlib.metadata import Distribution, distributions

import yaml
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from deploy.places import CHECKOUT

LIST = CHECKOUT / "requirements/licences.yml"
UNKNOWN = "UNKNOWN"
HEAD = "# The licence of every pinned Python package, as SPDX writes it: make licences.\n"
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


def listed() -> dict[str, str]:
    """The list: licences by package."""
    found: dict[str, str] = yaml.safe_load(LIST.read_text())
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    known, here = listed(), {_normal(package.metadata["Name"]): package for package in distributions()}
    names = set[str]().union(*(pinned(f"requirements/{file.name}") for file in LIST.parent.glob("*.txt")))
    said = {name: licence_of(here[name]) for name in names if name in here}
    found = {name: said.get(name) or known.get(name, UNKNOWN) for name in sorted(names)}
    LIST.write_text(HEAD + yaml.safe_dump(found, sort_keys=False))
    unknown = [name for name, licence in found.items() if licence == UNKNOWN]
    if unknown:
        print(f"write into {LIST.name} what you have read: {' '.join(unknown)}", file=sys.stderr)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
