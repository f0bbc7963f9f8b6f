"""Prometheus' rule files, formatted for people."""

from collections.abc import Sequence
from typing import Any

import yaml

Rule = dict[str, Any]
"""A recording or alerting rule in the format of Prometheus' rule files."""

Group = dict[str, Any]
"""Rules that are evaluated in order, in the same format."""


def render(groups: Sequence[Group], comment: str) -> str:
    """The file's text, `comment` first."""
    text = yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return f"# {comment}\n{text}"


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as block scalars, and no anchors for common parts of rules."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)
