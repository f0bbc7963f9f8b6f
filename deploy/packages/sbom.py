"""Software bills of materials of the exporters' packages, as CycloneDX: make sbom.

A wheel or a Debian package contains only the exporters, and the host decides the versions of their dependencies; the
SBOM lists the tested versions. An archive (`make bundle`) contains exactly these versions, and a CPython with its own
libraries.
"""

import argparse
import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from deploy.packages import deb, licences
from deploy.programs import CHECKOUT

# Libraries linked into a standalone CPython that often have vulnerabilities: licence, and the pattern of their version
# in its files.
_LINKED = {
    "expat": ("MIT", rb"expat_(\d+\.\d+\.\d+)\0"),
    "openssl": ("Apache-2.0", rb"OpenSSL (\d+\.\d+\.\d+[a-z]?) \d+ [A-Z][a-z]{2} \d{4}"),
    "zlib": ("Zlib", rb" deflate (\d+(?:\.\d+)+) "),
}


def of_packages() -> str:
    """The dependencies of the wheel and the Debian packages, as JSON: the same bytes for the same commit."""
    return _document(f"virtscope-{deb.version()}", list(_dependencies()))


def of_archive(name: str, interpreter: Path) -> str:
    """The components of the archive `name`, as JSON; `interpreter` is its CPython's, such as bin/python3.13."""
    return _document(name, [*_dependencies(), *_cpython(interpreter)])


def _document(name: str, components: Sequence[Component]) -> str:
    exporters = _component("virtscope", deb.version(), "Apache-2.0", "pypi", ComponentType.APPLICATION)
    date = deb.source_date()
    document = Bom(components=components, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {date}"))
    document.metadata.component = exporters
    document.metadata.timestamp = datetime.fromtimestamp(date, UTC)
    document.register_dependency(exporters, components)
    return JsonV1Dot6(document).output_as_string(indent=2) + "\n"


def _component(
    name: str, version: str, licence: str, kind: str = "generic", role: ComponentType = ComponentType.LIBRARY
) -> Component:
    """kind: the type in its package URL."""
    url = PackageURL(kind, name=name, version=version)
    terms = [LicenseFactory().make_from_string(licence)]
    return Component(name=name, version=version, type=role, licenses=terms, purl=url, bom_ref=str(url))


def _dependencies() -> Iterator[Component]:
    known = licences.listed()
    pins = (CHECKOUT / "requirements/exporters.txt").read_text()
    for name, version in re.findall(r"(?m)^([\w.-]+)==(\S+)", pins):
        yield _component(name, version, known[name], "pypi")


def _cpython(interpreter: Path) -> Iterator[Component]:
    """The CPython and its libraries, from its files, as it may be for another architecture."""
    minor = interpreter.name.removeprefix("python")
    versions: dict[str, str] = {}
    for file in [interpreter, *sorted(interpreter.parents[1].rglob("*.so"))]:
        content = file.read_bytes()
        if found := re.search(re.escape(minor).encode() + rb"\.\d+(?=\0)", content):
            versions.setdefault("cpython", found[0].decode())
        for name, (_, pattern) in _LINKED.items():
            if found := re.search(pattern, content):
                versions.setdefault(name, found[1].decode())
    yield _component("cpython", versions.pop("cpython"), "PSF-2.0", role=ComponentType.PLATFORM)
    for name, version in sorted(versions.items()):
        yield _component(name, version, _LINKED[name][0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what the exporters' wheel and Debian packages need.")
    parser.add_argument("folder", type=Path, help="where to put it")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"virtscope-{deb.version()}.cdx.json"
    file.write_text(of_packages())
    print(file)


if __name__ == "__main__":
    main()
