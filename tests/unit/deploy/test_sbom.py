"""The list of the packages' dependencies; tests/packages/test_bundle.py compares the archives' list with their
contents."""

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.packages import deb, sbom
from deploy.packages.licences import listed, pinned


def test_packages_need_what_is_pinned_under_these_licences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    document = sbom.of_packages()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(document) is None
    assert document == sbom.of_packages(), "the same commit gives the same bytes"
    read = json.loads(document)
    described = read["metadata"]["component"]
    assert (described["name"], described["version"]) == ("virtscope", deb.version())
    assert {component["name"] for component in read["components"]} == pinned("requirements/exporters.txt")
    for component in read["components"]:
        [licence] = component["licenses"]
        assert licence.get("expression", licence.get("license", {}).get("id")) == listed()[component["name"]]
        assert component["purl"] == f"pkg:pypi/{component['name']}@{component['version']}"
