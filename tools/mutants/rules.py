"""Mutants of Prometheus's rules: their thresholds, comparisons and waiting times.

Quantiles aren't changed: they are in the record's name or summary, and with few samples differ little.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import yaml

from tools.mutants.mutant import Mutant, plain

# The nearest and the opposite of each comparison.
_COMPARISONS = {
    ">": (">=", "<="),
    ">=": (">", "<"),
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    "==": ("!=",),
    "!=": ("==",),
}
_TOKEN = re.compile(
    r"""
    "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | \#[^\n]* | \{[^}]*\} | \[[^]]*\] | offset\s+\w+
  | quantile_over_time\(\s*[\d.]+ | [a-zA-Z_:][\w:]*
  | (?P<number> \d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w) )
  | (?P<comparison> [<>=!]=|[<>] )
    """,
    re.VERBOSE,
)
_FACTORS = (0.8, 1.25)
_WAITS = {"for": (0.5, 2), "keep_firing_for": (0.5, 2)}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All mutants of a rule file, at the positions of its expressions and durations in YAML."""
    repeated: Counter[str] = Counter()
    document = yaml.compose(text, Loader=yaml.CSafeLoader)
    assert document is not None
    for rule in _rules(document):
        name = rule["alert" if "alert" in rule else "record"].value
        for key, node in rule.items():
            start, end = node.start_mark.index, node.end_mark.index
            for begin, stop, replacement in _changes(key, text[start:end]):
                first, last = start + begin, start + stop
                line = plain(text[text.rfind("\n", 0, first) + 1 : text.find("\n", first)])
                place = f"{name} {line} {text[first:last]} {replacement}"
                repeated[place] += 1
                changed = partial("".join, (text[:first], replacement, text[last:]))
                yield Mutant(file, text, line, f"{place} {repeated[place]}", changed)


def _rules(document: yaml.Node) -> Iterator[dict[str, yaml.ScalarNode]]:
    """The scalars of each rule, by key."""
    for groups in _values(document, "groups"):
        for group in groups.value:
            for rules in _values(group, "rules"):
                for rule in rules.value:
                    yield {key.value: value for key, value in rule.value if isinstance(value, yaml.ScalarNode)}


def _values(mapping: yaml.Node, key: str) -> Iterator[yaml.Node]:
    return (value for name, value in mapping.value if name.value == key)


def _changes(key: str, text: str) -> Iterator[tuple[int, int, str]]:
    """Possible changes of a rule's value: begin, end and replacement."""
    if key in _WAITS:
        duration = re.fullmatch(r"(\d+)([smhd])", text)
        assert duration, text
        for factor in _WAITS[key]:
            yield 0, len(text), f"{int(duration[1]) * _SECONDS[duration[2]] * factor:.0f}s"
    elif key == "expr":
        for token in _TOKEN.finditer(text):
            if token["comparison"]:
                for other in _COMPARISONS[token[0]]:
                    yield *token.span(), other
            elif token["number"] and (number := float(token[0])):  # comparisons with 0: only the operator is changed
                for factor in _FACTORS:
                    yield *token.span(), f"{number * factor:g}"
