"""The rendered mixin for tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.program import program_path
from tools import mixin

Json = Any


@dataclass(frozen=True)
class Mixin:
    """Rendered output: rule groups by name, everything else by file name."""

    rules: dict[str, Json]
    alerts: dict[str, Json]
    dashboards: dict[str, Json]
    consoles: dict[str, str]
    objects: dict[str, Json]
    """Of Prometheus Operator, but for the same rules and dashboards again."""

    def every_rule(self) -> list[Json]:
        return [rule for groups in (self.rules, self.alerts) for group in groups.values() for rule in group["rules"]]


def loaded(text: str) -> Json:
    """Parse YAML ten times as fast as safe_load."""
    return yaml.load(text, yaml.CSafeLoader)


def groups(*files: Path) -> dict[str, Json]:
    return {group["name"]: group for file in files for group in loaded(file.read_text())["groups"]}


def rendered(folder: Path, config: str | None = None) -> Mixin:
    """The mixin with this Jsonnet merged into `_config`."""
    program_path("jsonnet")  # skips if it isn't available
    settings = None
    if config is not None:
        settings = folder / "config.libsonnet"
        settings.write_text(config)
    mixin.render(folder, settings)
    files = {
        part: {file.name: file.read_text() for file in (folder / part).glob("*")}
        for part in ("dashboards", "consoles", "prometheus-operator")
    }
    result = Mixin(
        groups(folder / "rules.yml"),
        groups(folder / "alerts.yml"),
        {name: json.loads(text) for name, text in files["dashboards"].items()},
        files["consoles"],
        {name: loaded(text) for name, text in files["prometheus-operator"].items()},
    )
    check_copies(result)
    return result


def check_copies(result: Mixin) -> None:
    """The Operator's objects have the same rules and dashboards. Removes those from `objects`."""
    for part in ("rules", "alerts"):
        spec = result.objects[f"prometheusRule-{part}.yaml"].pop("spec")
        assert spec == {"groups": list(getattr(result, part).values())}
    maps = [each.pop("data") for each in result.objects.values() if each["kind"] == "ConfigMap"]
    assert {name: json.loads(text) for data in maps for name, text in data.items()} == result.dashboards
