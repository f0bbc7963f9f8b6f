"""deploy/go_programs.py with a stand-in for Go: builds, their triggers and their visibility. Needs no network."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from deploy import go_programs
from deploy.go_programs import PROGRAMS, GoProgramsError
from tests.stack.go import Go


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Go:
    go = Go(tmp_path, {})
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(go.cache))
    return go


def test_the_programs_of_a_module_are_built_together_and_once_and_nothing_else_is_left(go: Go) -> None:
    go.go_on()
    together = threading.Barrier(3)

    def path(name: str) -> Path:
        together.wait(timeout=30)
        return go_programs.path(name)

    with ThreadPoolExecutor() as builders:
        paths = list(builders.map(path, ["vmagent", "vmauth", "vmagent"]))
    assert [path.name for path in paths] == ["vmagent", "vmauth", "vmagent"]
    assert {file.name for file in paths[0].parent.iterdir()} == {"vmagent", "vmauth", ".lock"}
    assert len(go.builds()) == 1


def test_a_failed_build_says_why_and_what_it_had_done_counts_the_next_time(go: Go) -> None:
    for complaint, said in {
        "main.go:7:2: no such package\n": r"^cannot build cadvisor \d+\.\d+\.\d+: main\.go:7:2: no such package$",
        "go: Get https://example.org/: dial tcp: lookup example.org: no such host\n": "check the network",
    }.items():
        go.go_on(f"go: downloading much\n{complaint}")
        with pytest.raises(GoProgramsError, match=said):
            go_programs.path("cadvisor")
    assert not go_programs.is_built("cadvisor")
    go.go_on()
    assert go_programs.path("cadvisor").is_file()
    assert len(go.builds()) == 3
    assert len(set(go.builds())) == 1


def test_all_that_is_missing_is_built_whatever_fails(go: Go, capsys: pytest.CaptureFixture[str]) -> None:
    go.go_on()
    go_programs.path("vegeta")
    go.go_on("main.go:7:2: no such package\n")
    tried = {}
    for layer in ("quick", "system", "all"):
        go_programs.main(layer)
        tried[layer] = set(re.findall(r"^Building (\S+)", said := capsys.readouterr().out, re.MULTILINE))
    modules = {program.module.folder.name for program in PROGRAMS.values()} - {"vegeta"}
    assert said.count("cannot build") == len(modules)
    assert tried["quick"] == {"sloth", "jsonnet"}
    assert tried["system"] > tried["quick"] | {"prometheus", "alertmanager", "telegraf"}
    assert tried["all"] - tried["system"] == {"kubernetes", "python"}
    go.go_on()
    go_programs.main()
    # The stand-in has no release files to embed.
    built = {name for name, program in PROGRAMS.items() if not program.module.built_by_release}
    assert all(map(go_programs.is_built, built))


def test_too_small_a_disk_is_reported_before_it_is_full(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go_programs, "NEEDED_BYTES", 10**18)
    with pytest.raises(GoProgramsError, match=r"GB are free in .* and building telegraf needs 1000000000 GB"):
        go_programs.path("telegraf")
    assert go.builds() == []


def test_another_pin_or_another_plugin_is_another_build(tmp_path: Path) -> None:
    telegraf = PROGRAMS["telegraf"].module
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).write_bytes((telegraf.folder / name).read_bytes())
    same = replace(telegraf, folder=tmp_path)
    assert same.content == telegraf.content
    assert replace(same, tags=(*telegraf.tags, "inputs.cpu")).content != telegraf.content
    (tmp_path / "go.sum").write_text("other\n")
    assert same.content != telegraf.content
