"""JSON Schemas of Kubernetes' and Prometheus Operator's objects, as kubeconform reads them."""

import json
from pathlib import Path
from typing import Any

import yaml

from deploy import go_programs

Json = Any
LOCATION = "{{.Group}}-{{.ResourceAPIVersion}}-{{.ResourceKind}}.json"


def strict(schema: Json) -> Json:
    """As JSON Schema without unknown fields, like `kubectl --validate=strict`."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    of_fields = isinstance(made.get("properties"), dict) and made.get("type") == "object"
    if of_fields and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string") is True:
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return made


def write(folder: Path) -> str:
    """Write schemas into a folder; return kubeconform's location of them. Raises `GoProgramsError`."""
    for file in (go_programs.kubernetes_api() / "v3").glob("api*_v*_openapi.json"):
        schemas = json.loads(file.read_text())["components"]["schemas"]
        components = {"components": {"schemas": strict(schemas)}}
        for name, schema in schemas.items():
            for known in schema.get("x-kubernetes-group-version-kind", ()):
                group = known["group"] or known["version"]
                whole = components | {"$ref": f"#/components/schemas/{name}"}
                (folder / f"{group}-{known['version']}-{known['kind'].lower()}.json").write_text(json.dumps(whole))
    for kind in ("podmonitors", "prometheusrules", "servicemonitors"):
        file = go_programs.custom_resource_definitions() / f"monitoring.coreos.com_{kind}.yaml"
        spec = yaml.load(file.read_text(), yaml.CSafeLoader)["spec"]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            name = f"{spec['group']}-{version['name']}-{spec['names']['singular']}.json"
            (folder / name).write_text(json.dumps(schema))
    return f"{folder}/{LOCATION}"
