"""compose.fleet.yaml runs the same parts with the same command lines as `make fleet`."""

from __future__ import annotations

import re
from typing import Any

import yaml

from fleet import compose, settings
from fleet.parts import Part, parts

SHIPPED = settings.read()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(compose.text(SHIPPED))["services"]
STACK: dict[str, Any] = yaml.safe_load((settings.CHECKOUT / "compose.yaml").read_text())


def test_there_is_a_service_for_each_part_with_the_rights_of_the_stacks_and_grafana() -> None:
    assert set(SERVICES) == {part.name for part in parts(SHIPPED)} | {"grafana"}
    for part in parts(SHIPPED):
        assert_is_part(SERVICES[part.name], part)
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://127.0.0.1:19220"  # the first query


def assert_is_part(service: dict[str, Any], part: Part) -> None:
    assert {name: service[name] for name in STACK["x-service"]} == STACK["x-service"]
    differing = [
        (own, of_part) for own, of_part in zip(service["command"], part.arguments, strict=True) if own != of_part
    ]
    volumes = dict(volume.split(":")[:2] for volume in service["volumes"])
    data = volumes.get(f"{part.name}-data")
    assert differing == [(of_part.replace(part.data, str(data)), of_part) for _, of_part in differing]
    assert len(differing) == (0 if part.kind == "query" else 1)
    starter = [word.replace(part.data, str(data)) for word in part.starter]
    assert service.get("entrypoint", [])[:-1] == starter
    words = [*service.get("entrypoint", []), *service["command"]]
    assert not any("$" in word for word in words)  # compose would fill it in


def test_paths_in_containers_lead_to_what_is_mounted() -> None:
    """Configurations name the targets relative to .stack/fleet, which is where it is in the checkout."""
    service = SERVICES["prometheus-0-a"]
    mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert mounted["./.stack/fleet"] == service["working_dir"] == "/etc/virtscope/.stack/fleet"
    assert mounted["./prometheus"] == "/etc/virtscope/prometheus"


def test_images_are_the_stacks_and_a_pinned_thanos() -> None:
    images = {part.program: SERVICES[part.name]["image"] for part in parts(SHIPPED)}
    assert images["prometheus"] == STACK["services"]["prometheus"]["image"]
    assert images["alertmanager"] == STACK["services"]["alertmanager"]["image"]
    assert re.fullmatch(r".+:v\d+\.\d+\.\d+", images["thanos"])
