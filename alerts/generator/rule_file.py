"""Prometheus' rule files, formatted for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Rule = dict[str, Any]
"""A recording or alerting rule in the format of Prometheus' rule files."""


@dataclass(frozen=True)
class Group:
    """Rules that are evaluated in order, every `interval` (such as "1m"; "" is the default)."""

    name: str
    rules: Sequence[Rule]
    interval: str = ""


def render(groups: Sequence[Group], comment: str) -> str:
    """The file's text, `comment` first."""
    document = {
        "groups": [
            {"name": group.name, **({"interval": group.interval} if group.interval else {}), "rules": [*group.rules]}
            for group in groups
        ]
    }
    return f"# {comment}\n" + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as block scalars, and no anchors for common parts of rules."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
