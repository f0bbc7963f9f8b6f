"""The Go modules in deploy/go, and the programs that are built from them.

Each folder is a Go module whose `go.mod` names programs as tools, or which is a program of ours around a library, and
whose `go.sum` holds the checksums of all that goes into them; of prometheus-operator, only files are used.

The stack itself needs none of them. Telegraf watches applications; the lab runs Telegraf, cAdvisor and vegeta. Sloth
writes the objectives' rules. mixin, Jsonnet with functions of ours, renders the mixin, and Jsonnet's own programs
check it. standalone-python brings the bundle's Python where its release can't be reached; licences reads the licences
of all these modules. Prometheus 3 and Alertmanager 0.34 are the releases in compose.yaml, for tests without Docker.
Thanos stores a fleet's samples, and vmauth and vmagent receive what hosts push.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CHECKOUT = Path(__file__).resolve().parent.parent
MODULES = CHECKOUT / "deploy" / "go"
_PROMETHEUS_VERSION = "github.com/prometheus/common/version.Version"

Layer = Literal["quick", "system", "all"]
"""The first of `make test`, `make test-system` and `make test-all` that needs a program."""


class GoProgramsError(Exception):
    """A program can't be built. The message is one line for the user: what is wrong and what to do."""


@dataclass(frozen=True)
class Module:
    """A folder of `deploy/go`. Its programs are built together: most of the time goes into what they share.

    packages: of the programs, which are called as the last part of the package's name (not: v12).
    released_in: the Go module whose version is the programs'.
    version_variable: where its releases have the linker write their version; None: it stands in the source.
    built_by_release: a file that its programs embed and only its releases have; empty here.
    build_time: on two cores that have nothing else to do.
    """

    folder: Path
    packages: tuple[str, ...]
    released_in: str
    version_variable: str | None = None
    tags: tuple[str, ...] = ()
    built_by_release: str | None = None
    build_time: str = "a few minutes"
    layer: Layer = "system"

    @property
    def version(self) -> str:
        """The release that go.mod pins, such as "1.39.2"."""
        pins = (self.folder / "go.mod").read_text()
        pin = re.search(rf"^\s*(?:require )?{re.escape(self.released_in)} v(\S+)", pins, re.MULTILINE)
        if pin is None:
            raise GoProgramsError(f"deploy/go/{self.folder.name}/go.mod does not pin {self.released_in}")
        # Prometheus's Go module numbers the release 3.x.y 0.3xx.y.
        renumbered = re.fullmatch(r"0\.(\d)(\d\d)\.(\d+)", pin[1]) if self.released_in.endswith("/prometheus") else None
        return ".".join(str(int(part)) for part in renumbered.groups()) if renumbered else pin[1]

    @property
    def content(self) -> str:
        """What decides the programs' content, twelve digits: no new pin, plugin or line of ours meets an old build."""
        content = hashlib.sha256(" ".join(self.tags).encode())
        for file in sorted([self.folder / "go.mod", self.folder / "go.sum", *self.folder.glob("*.go")]):
            content.update(file.read_bytes())
        return content.hexdigest()[:12]

    @property
    def built(self) -> Path:
        """The folder that its programs are built into."""
        return cache() / self.content


@dataclass(frozen=True)
class Program:
    """A program of one of the modules."""

    module: Module
    file: str

    @property
    def version(self) -> str:
        """The release that the module pins, such as "1.39.2"."""
        return self.module.version

    @property
    def path(self) -> Path:
        """Where it is once it is built."""
        return self.module.built / self.file


def cache() -> Path:
    """Where Go, what it downloads and what it builds are kept."""
    return Path(os.environ.get("VIRTSCOPE_CACHE") or CHECKOUT / ".stack" / "cache").absolute() / "go"


# What telegraf/, the tests and the bench use of its 400 plugins: all of them would take an hour to build. For a
# sensor of one's own there is the vendor's package.
_TELEGRAF_PLUGINS = (
    *("inputs.apache", "inputs.exec", "inputs.file", "inputs.http_response", "inputs.internal", "inputs.mysql"),
    *("inputs.nginx", "inputs.postgresql", "inputs.tail", "parsers.grok", "parsers.prometheus", "parsers.value"),
    *("processors.rename", "processors.starlark", "aggregators.histogram", "outputs.prometheus_client"),
)
_IN_PROMETHEUS = "github.com/prometheus/prometheus"
_IN_ALERTMANAGER = "github.com/prometheus/alertmanager"
_IN_TELEGRAF = "github.com/influxdata/telegraf"
_IN_SLOTH = "github.com/slok/sloth"
_IN_CADVISOR = "github.com/google/cadvisor"
_IN_VEGETA = "github.com/tsenart/vegeta/v12"
_IN_JSONNET = "github.com/google/go-jsonnet"
_IN_THANOS = "github.com/thanos-io/thanos"
_IN_VICTORIA = "github.com/VictoriaMetrics/VictoriaMetrics"
_NO_DISCOVERY = ("remove_all_sd",)  # clients of clouds and of Kubernetes take most of the compile time; file_sd stays

_PROMETHEUS = Module(
    MODULES / "prometheus", (f"{_IN_PROMETHEUS}/cmd/prometheus", f"{_IN_PROMETHEUS}/cmd/promtool"),
    _IN_PROMETHEUS, _PROMETHEUS_VERSION, _NO_DISCOVERY,
)  # fmt: skip
_ALERTMANAGER = Module(
    MODULES / "alertmanager", (f"{_IN_ALERTMANAGER}/cmd/alertmanager", f"{_IN_ALERTMANAGER}/cmd/amtool"),
    _IN_ALERTMANAGER, _PROMETHEUS_VERSION,
    built_by_release="ui/app/dist/index.html",  # so these have the API, and no pages
)  # fmt: skip
_TELEGRAF = Module(
    MODULES / "telegraf", (f"{_IN_TELEGRAF}/cmd/telegraf",), _IN_TELEGRAF, f"{_IN_TELEGRAF}/internal.Version",
    ("custom", *_TELEGRAF_PLUGINS), build_time="about 4 minutes",
)  # fmt: skip
_SLOTH = Module(
    MODULES / "sloth", (f"{_IN_SLOTH}/cmd/sloth",), _IN_SLOTH, f"{_IN_SLOTH}/internal/info.Version",
    build_time="about 2 minutes", layer="quick",
)  # fmt: skip
_CADVISOR = Module(
    MODULES / "cadvisor", ("tools/cadvisor",), _IN_CADVISOR, f"{_IN_CADVISOR}/lib/version.Version",
    build_time="about a minute",
)  # fmt: skip
_VEGETA = Module(
    MODULES / "vegeta", (_IN_VEGETA,), _IN_VEGETA, "main.Version", build_time="a minute", layer="all"
)  # fmt: skip
_MIXIN = Module(
    MODULES / "mixin",
    ("tools/mixin", *(f"{_IN_JSONNET}/cmd/{each}" for each in ("jsonnet", "jsonnetfmt", "jsonnet-lint"))),
    _IN_JSONNET, build_time="about a minute", layer="quick",
)  # fmt: skip
PROMETHEUS_OPERATOR = Module(MODULES / "prometheus-operator", (), "github.com/prometheus-operator/prometheus-operator")
PYTHON = Module(
    MODULES / "python", ("tools/standalone-python",), "github.com/kluctl/go-embed-python",
    build_time="half a minute", layer="all",
)  # fmt: skip
_THANOS = Module(
    MODULES / "thanos", (f"{_IN_THANOS}/cmd/thanos",), _IN_THANOS, _PROMETHEUS_VERSION,
    ("slicelabels",),  # without it receive panics: thanos-io/thanos#8543
    build_time="about 3 minutes",
)  # fmt: skip
_VICTORIAMETRICS = Module(
    MODULES / "victoriametrics", (f"{_IN_VICTORIA}/app/vmagent", f"{_IN_VICTORIA}/app/vmauth"),
    _IN_VICTORIA, f"{_IN_VICTORIA}/lib/buildinfo.Version", build_time="about a minute",
)  # fmt: skip
_COLLECTOR = Module(
    MODULES / "otelcol", ("tools/otelcol",), "go.opentelemetry.io/collector/otelcol", "main.version", _NO_DISCOVERY,
    build_time="about 3 minutes",
)  # fmt: skip
_LICENCES = Module(
    MODULES / "licences", ("tools/licences",), "github.com/google/licensecheck",
    build_time="half a minute", layer="all",
)  # fmt: skip

PROGRAMS = {
    "prometheus3": Program(_PROMETHEUS, "prometheus"),
    "promtool3": Program(_PROMETHEUS, "promtool"),
    "alertmanager034": Program(_ALERTMANAGER, "alertmanager"),
    "amtool034": Program(_ALERTMANAGER, "amtool"),
    **{name: Program(_MIXIN, name) for name in ("jsonnet", "jsonnetfmt", "jsonnet-lint", "mixin")},
    **{name: Program(_VICTORIAMETRICS, name) for name in ("vmagent", "vmauth")},
    "telegraf": Program(_TELEGRAF, "telegraf"),
    "sloth": Program(_SLOTH, "sloth"),
    "cadvisor": Program(_CADVISOR, "cadvisor"),
    "vegeta": Program(_VEGETA, "vegeta"),
    "standalone-python": Program(PYTHON, "standalone-python"),
    "licences": Program(_LICENCES, "licences"),
    "thanos": Program(_THANOS, "thanos"),
    "otelcol": Program(_COLLECTOR, "otelcol"),
}
