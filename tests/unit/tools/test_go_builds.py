"""What tools/go_programs.py has Go build, with a stand-in for Go: for which layer, and without what is cut out."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tools import go_programs
from tools.go_programs import PROGRAMS, Cut, GoProgramsError, Module, Program

# Knows one package, and builds by copying its main.go from where go.mod says that its module is.
GO = """\
#!/bin/sh
echo "$*" >> "{folder}/asked"
case $1 in
list) cat "{folder}/listed" ;;
build)
  while [ "$1" != -modfile ]; do shift; done
  source=$(sed -n 's/^replace .* => //p' "$2")
  while [ "$1" != -o ]; do shift; done
  mkdir -p "$2" && cp "$source/cmd/shop/main.go" "$2/shop" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in's folder; "shop" is the one program that there is."""
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
    pin = hashlib.sha256(go_programs.TOOLCHAIN_PIN.read_bytes()).hexdigest()[:12]
    program = tmp_path / "cache" / "go" / f"toolchain-{pin}" / "go" / "bin" / "go"
    program.parent.mkdir(parents=True)
    program.write_text(GO.format(folder=tmp_path))
    program.chmod(0o755)
    main = tmp_path / "shop" / "cmd" / "shop" / "main.go"
    main.parent.mkdir(parents=True)
    main.write_text('import "clouds"\nfunc main() {\n\tsell()\n\tclouds.Discover()\n}\n')
    module = {"Path": "example.org/shop", "Dir": str(tmp_path / "shop")}
    (tmp_path / "listed").write_text(json.dumps({"Dir": str(main.parent), "Module": module}))
    (tmp_path / "pins").mkdir()
    (tmp_path / "pins" / "go.mod").write_text("module tools/shop\n\ntool example.org/shop v1.2.3\n")
    (tmp_path / "pins" / "go.sum").touch()
    return tmp_path


def shop(folder: Path, *cuts: Cut) -> Program:
    module = Module(folder / "pins", ("example.org/shop/cmd/shop",), "example.org/shop", None, cuts=cuts)
    return Program(module, "shop")


def test_what_is_cut_out_is_not_in_the_program(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cut("example.org/shop/cmd/shop", "main.go", r"import .*\n|\n.*clouds.*")
    monkeypatch.setitem(PROGRAMS, "shop", shop(go, cut))
    assert go_programs.path("shop").read_text() == "func main() {\n\tsell()\n}\n"
    assert "clouds" in (go / "shop" / "cmd" / "shop" / "main.go").read_text(), "the module itself is left as it is"
    assert shop(go).module.content != shop(go, cut).module.content, "a program without it is another one"


def test_a_program_that_has_changed_where_it_is_cut_is_not_built(go: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "shop", shop(go, Cut("example.org/shop/cmd/shop", "main.go", r"kubernetes")))
    with pytest.raises(GoProgramsError, match=r"example\.org/shop/cmd/shop/main\.go has changed"):
        go_programs.path("shop")
    assert "build" not in (go / "asked").read_text()


def test_make_test_builds_sloth_and_jsonnet_alone(go: Path, capsys: pytest.CaptureFixture[str]) -> None:
    toolchain = next((go / "cache" / "go").glob("toolchain-*/go/bin/go"))
    toolchain.write_text("#!/bin/sh\nexit 1\n")
    tried = {}
    for layer in ("quick", "system", "all"):
        go_programs.main(layer)
        tried[layer] = set(re.findall(r"^Building (\S+)", capsys.readouterr().out, re.MULTILINE))
    assert tried["quick"] == {"sloth", "mixin"}
    assert tried["system"] > tried["quick"] | {"prometheus", "alertmanager", "telegraf"}
    assert tried["all"] - tried["system"] == {"licences", "python", "vegeta"}
