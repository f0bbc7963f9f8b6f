"""Ports and addresses in local/stack.env."""

from pathlib import Path

import pytest

from deploy import StackError, configuration
from tests.support.refusals import assert_refused

URL = "PROMETHEUS_EXTERNAL_URL"


def test_what_is_passed_replaces_what_the_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "LOCAL", tmp_path)
    environment = {"GRAFANA_PORT": "3001"}
    configuration.add_settings(environment)
    assert environment == {"GRAFANA_PORT": "3001"}, "there is no file"
    file = tmp_path / "stack.env"
    file.write_text(f'# behind a proxy\n\n{URL}="https://monitor.example.org/p"\nGRAFANA_PORT=3002\n KVM_PORT=1234 \n')
    configuration.add_settings(environment)
    assert environment == {"GRAFANA_PORT": "3001", URL: "https://monitor.example.org/p", "KVM_PORT": "1234"}
    for line in ("PROMETEUS_PORT=9095", "PATH=/tmp", "GRAFANA_PORT 3001"):
        file.write_text(f"# mine\n{line}\n")
        assert_refused(StackError, rf"^local/stack\.env:2: {line} is not NAME=VALUE of a setting; there are PROM",
                       configuration.add_settings, {})  # fmt: skip
