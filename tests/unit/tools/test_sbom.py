"""The lists of what packages need and archives hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tools import deb, sbom
from tools.licences import listed, pinned


def components(document: str) -> dict[str, str]:
    """Versions by name, of a document that follows CycloneDX's schema."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    return {component["name"]: component["version"] for component in json.loads(document)["components"]}


@pytest.fixture(autouse=True)
def date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def test_packages_need_what_is_pinned_under_these_licences() -> None:
    document = sbom.of_packages()
    assert components(document).keys() == pinned("requirements/exporters.txt")
    assert document == sbom.of_packages(), "the same commit gives the same bytes"
    read = json.loads(document)
    described = read["metadata"]["component"]
    assert (described["name"], described["version"]) == ("virtscope", deb.version())
    for component in read["components"]:
        [licence] = component["licenses"]
        assert licence.get("expression", licence.get("license", {}).get("id")) == listed()["python"][component["name"]]
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"


def test_an_archive_has_also_cpython_and_the_libraries_in_it(tmp_path: Path) -> None:
    interpreter = tmp_path / "bin/python3.13"
    module = tmp_path / "lib/python3.13/lib-dynload/pyexpat.so"
    for file in (interpreter, module):
        file.parent.mkdir(parents=True)
    interpreter.write_bytes(b"\0%d.%d\0003.13.15\0OpenSSL 3.5.7 9 Jun 2026\0 deflate 1.3.1 Copyright 1995\0")
    module.write_bytes(b"\0expat_2.8.2\0")
    found = components(sbom.of_archive("virtscope-1-linux-x86_64", interpreter))
    in_python = {"cpython": "3.13.15", "expat": "2.8.2", "openssl": "3.5.7", "zlib": "1.3.1"}
    assert found == {**components(sbom.of_packages()), **in_python}
