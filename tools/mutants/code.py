"""Mutants of Python, by Cosmic Ray's operators."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from tools.mutants.mutant import Mutant, plain

# A subset of Cosmic Ray's 180 operators, without mutants that any test of the line kills: for comparisons the nearest
# and the opposite, for calculations the inverse.
_COMPARISONS = [("Eq", "NotEq"), ("NotEq", "Eq"), ("Is", "IsNot"), ("IsNot", "Is")]
_COMPARISONS += [("Lt", "LtE"), ("Lt", "GtE"), ("LtE", "Lt"), ("LtE", "Gt")]
_COMPARISONS += [("Gt", "GtE"), ("Gt", "LtE"), ("GtE", "Gt"), ("GtE", "Lt")]
_CALCULATIONS = [("Add", "Sub"), ("Sub", "Add"), ("Mul", "Div"), ("Div", "Mul"), ("FloorDiv", "Mul"), ("Mod", "Mul")]
_CALCULATIONS += [("LShift", "RShift"), ("RShift", "LShift"), ("BitAnd", "BitOr"), ("BitOr", "BitAnd")]
OPERATORS = [
    *(f"ReplaceComparisonOperator_{a}_{b}" for a, b in _COMPARISONS),
    *(f"ReplaceBinaryOperator_{a}_{b}" for a, b in _CALCULATIONS),
    *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "AddNot"),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer"),
]

Position = tuple[int, int]


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """All mutants of a Python file, except in parameters' annotations and kinds, and in texts of errors and logs."""
    tree = get_ast(source)
    ignored = _ignored(source)
    lines = source.splitlines()
    for name in OPERATORS:
        operator: Any = get_operator(f"core/{name}")()
        repeated: Counter[str] = Counter()
        positions = (position for node in ast_nodes(tree) for position in operator.mutation_positions(node))
        for occurrence, (start, stop) in enumerate(positions):
            text = lines[start[0] - 1]
            if any(begin <= start < end for begin, end in ignored) or text.startswith(("*,", "/,"), start[1]):
                continue
            if name == "ExceptionReplacer" and "." in text[start[1] : stop[1]]:  # Cosmic Ray 8.7 can't replace it
                continue
            line = plain(text)
            repeated[line] += 1
            make = partial(_mutate, source, operator, occurrence)
            yield Mutant(file, source, line, f"{name} {repeated[line]}", make)


def _mutate(source: str, operator: Any, occurrence: int) -> str:
    mutated = mutate_code(source, operator, occurrence)
    assert isinstance(mutated, str)
    return mutated


def _ignored(source: str) -> list[tuple[Position, Position]]:
    """Begin and end of code that isn't changed: lines from 1, columns from 0 in characters."""
    lines = source.splitlines()
    spans: list[tuple[Position, Position]] = []
    for node in ast.walk(ast.parse(source)):
        ignored = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log.")):
            ignored.append(node)
        for part in filter(None, ignored):
            begin = _position(lines, part.lineno, part.col_offset)
            spans.append((begin, _position(lines, part.end_lineno, part.end_col_offset)))
    return spans


def _position(lines: list[str], line: int, byte: int) -> Position:
    return line, len(lines[line - 1].encode()[:byte].decode())
