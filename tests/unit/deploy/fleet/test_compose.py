"""compose.fleet.yaml runs the same parts with the same command lines as `make fleet`."""

from typing import Any

import yaml

from deploy.fleet import compose, settings
from deploy.fleet.parts import Part, parts
from deploy.places import CHECKOUT

SHIPPED = settings.read()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(compose.text(SHIPPED))["services"]
STACK: dict[str, Any] = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())


def volumes(service: dict[str, Any]) -> dict[str, str]:
    return dict(volume.split(":")[:2] for volume in service["volumes"])


def test_there_is_a_service_for_each_part_with_the_rights_of_the_stacks_and_grafana() -> None:
    assert set(SERVICES) == {part.name for part in parts(SHIPPED)} | {"grafana"}
    for part in parts(SHIPPED):
        assert_is_part(SERVICES[part.name], part)
    assert SERVICES["grafana"]["environment"]["PROMETHEUS_URL"] == "http://127.0.0.1:19220"  # the first query


def assert_is_part(service: dict[str, Any], part: Part) -> None:
    assert {name: service[name] for name in STACK["x-service"]} == STACK["x-service"]
    if part.program != "thanos":
        assert service["image"] == STACK["services"][part.program]["image"]
    data = str(volumes(service).get(f"{part.name}-data"))
    assert (data == "None") == (part.kind == "query")
    assert service["command"] == [argument.replace(part.data, data) for argument in part.arguments]
    assert service.get("entrypoint", [])[:-1] == [word.replace(part.data, data) for word in part.starter]
    assert "$" not in "".join([*service.get("entrypoint", []), *service["command"]])  # compose would substitute it


def test_paths_in_containers_lead_to_what_is_mounted() -> None:
    """Configurations have target paths relative to .stack/fleet, as in the checkout."""
    service = SERVICES["prometheus-0-a"]
    assert volumes(service)["./.stack/fleet"] == service["working_dir"] == "/etc/virtscope/.stack/fleet"
    assert volumes(service)["./prometheus"] == "/etc/virtscope/prometheus"
