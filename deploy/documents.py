"""Reads YAML files that people write into pydantic's models; errors name file, line and key.

Scalars are kept as text: the model decides whether `no` is a word or false.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from deploy import StackError

M = TypeVar("M", bound=BaseModel)
KeyPath = tuple[str | int, ...]
"""The path of a value: keys, and indexes of list entries."""


class FileError(StackError):
    """A file can't be used. Each line of the message is `FILE:LINE: KEY: PROBLEM`."""


class KeyProblem(ValueError):
    """A problem at a key below the value passed to a model's validator."""

    def __init__(self, problem: str, *path: str | int) -> None:
        super().__init__(problem)
        self.path = path


class Model(BaseModel):
    """A mapping with these keys and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, mapping: Any) -> Any:
        known = [str(field.validation_alias or name) for name, field in cls.model_fields.items()]
        for key in mapping if isinstance(mapping, dict) else ():
            if key not in known:
                raise KeyProblem(f"no such key{nearest(key, known)}", key)
        return mapping


@dataclass(frozen=True, eq=False)
class Document:
    """A file's content, with the line and the text of each value."""

    file: str
    content: Any
    lines: dict[KeyPath, int]
    scalars: dict[KeyPath, str]

    def place(self, *path: str | int) -> str:
        """FILE:LINE of a value, or of the nearest enclosing value."""
        while path not in self.lines:
            path = path[:-1]
        return f"{self.file}:{self.lines[path]}"

    def error(self, problem: str, *path: str | int) -> FileError:
        """An error about a value, or about a missing key."""
        key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        return FileError(f"{self.place(*path)}: {f'{key}: ' if key else ''}{problem}")

    def read(self, model: type[M], context: Any = None) -> M:
        """Validate the content by the model; `context` is for the model's validators. Raises `FileError`.

        The error has a line for each wrong value.
        """
        try:
            return model.model_validate(self.content, context=context)
        except ValidationError as invalid:
            found = [self._explained(error) for error in invalid.errors()]
        first = dict(reversed(found))  # of a value: pydantic's others are about the other kinds that it may have
        raise FileError("\n".join(str(self.error(first[path], *path)) for path in dict(found)))

    def _explained(self, error: ErrorDetails) -> tuple[KeyPath, str]:
        """Where an error of pydantic's is in the file, and what is wrong there."""
        path: KeyPath = ()
        for part in error["loc"]:  # skips parts that pydantic adds for unions, which aren't in the file
            if (*path, part) in self.lines or (error["type"] == "missing" and part == error["loc"][-1]):
                path = (*path, part)
        cause = error.get("ctx", {}).get("error")
        if isinstance(cause, KeyProblem):
            path += cause.path
        if error["type"] == "missing":
            return path, "is missing"
        if cause:
            return path, str(cause)
        written = f", not {self.scalars[path]!r}" if path in self.scalars else ""
        return path, error["msg"].removeprefix("Input ").removeprefix("String ") + written


def load(file: Path, shown: str = "") -> Document:
    """A file's content; `shown` replaces its name in errors. Raises `FileError`."""
    return parse(read_text(file, shown), shown or str(file))


def read_text(file: Path, shown: str = "") -> str:
    """A file's text; raises `FileError` if it is missing or isn't UTF-8."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise FileError(f"{shown or file}:{line}: is not UTF-8: {error.reason}") from error
    except OSError as error:
        raise FileError(f"{shown or file}:1: can't be read: {error.strerror}") from error


def parse(text: str, file: str) -> Document:
    """A file's content; an empty file is an empty mapping. Raises `FileError` for invalid YAML or duplicate keys."""
    document = Document(file, {}, {(): 1}, {})
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return Document(file, _content(node, (), document), document.lines, document.scalars) if node else document
    except yaml.MarkedYAMLError as error:
        written = text.splitlines() or [""]
        line = min(error.problem_mark.line if error.problem_mark else 0, len(written) - 1)
        if r"'\t'" in (error.problem or ""):
            hint = "; indent with spaces, not tabs"
        elif re.search(r"[:-]\s+[{[]", written[line]):
            hint = "; close the bracket, or put a string that begins with one in quotes"
        else:
            hint = "; check indentation, colons and quotes"
        raise FileError(f"{file}:{line + 1}: is not YAML: {error.problem}{hint}") from error
    except yaml.reader.ReaderError as error:  # characters that YAML doesn't allow
        line = text[: error.position].count("\n")
        raise FileError(f"{file}:{line + 1}: is not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise FileError(f"{file}:1: is not usable: its lists or mappings are nested too deeply") from None


def nearest(given: str, there_are: Iterable[str]) -> str:
    """The end of an error message: the nearest valid name, or all of them."""
    if near := difflib.get_close_matches(given, [*there_are], n=1, cutoff=0.6):
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(there_are)}"


def _content(node: yaml.Node, path: KeyPath, document: Document) -> Any:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_content(item, (*path, number), document) for number, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        document.scalars[path] = node.value
        return None if node.tag.endswith(":null") else node.value
    found: dict[str, Any] = {}
    for key_node, value in node.value:
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        document.lines[(*path, key)] = key_node.start_mark.line + 1
        if not key_node.tag.endswith(":str"):
            point = "; decimals need a point, as in 0.5" if key.isdecimal() else ""
            raise document.error(f"is not a key{point}", *path, key)
        if key in found:
            raise document.error("is there twice", *path, key)
        found[key] = _content(value, (*path, key), document)
    return found
