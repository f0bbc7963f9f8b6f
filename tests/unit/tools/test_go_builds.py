"""What tools/go_programs.py has Go build for which layer of tests, with a Go that builds nothing."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tools import go_programs


def test_make_test_builds_sloth_and_jsonnet_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path))
    pin = hashlib.sha256(go_programs.TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]
    go = tmp_path / "go" / f"toolchain-{pin}" / "go" / "bin" / "go"
    go.parent.mkdir(parents=True)
    go.write_text("#!/bin/sh\nexit 1\n")
    go.chmod(0o755)
    tried = {}
    for layer in ("quick", "system", "all"):
        go_programs.main(layer)
        tried[layer] = set(re.findall(r"^Building (\S+)", capsys.readouterr().out, re.MULTILINE))
    assert tried["quick"] == {"sloth", "mixin"}
    assert tried["system"] > tried["quick"] | {"prometheus", "alertmanager", "telegraf"}
    assert tried["all"] - tried["system"] == {"licences", "python", "vegeta"}
