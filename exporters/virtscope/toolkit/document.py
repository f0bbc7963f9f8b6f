"""A YAML file as sections with typed values, and the files that it was read from."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class DocumentError(Exception):
    """The file is unusable. The message is one line: file, line, key, problem, remedy.

    It never holds a password, a hash, or any part of a key.
    """

    def __init__(self, path: Path, key: str, problem: str, line: int | None = None) -> None:
        place = f"line {line}" if line else ""
        super().__init__(" ".join(": ".join(part for part in (str(path), place, key, problem) if part).split()))


def read_document(path: Path, files: WatchedFiles, flag: str, known: Collection[str]) -> Section:
    """Read the file of a flag, with these sections; they read the files they name through `files` too."""
    try:
        content = files.read(path)
    except OSError as error:
        raise DocumentError(path, "", f"{error.strerror}; give {flag} a file this user may read") from None
    return Section(path, files, "", _parse(path, content), known)


class _Mapping(dict[str, Any]):
    """Values by key, and the line of each key."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}


class Section:
    """One mapping of the file.

    As in exporter-toolkit, an empty value counts as absent. Reading a value of the wrong type raises DocumentError.

    name: its place in the file, such as "http_server_config.headers"; "" for the whole file. known: the valid keys;
    None allows any. line: that of its key.
    """

    def __init__(
        self,
        path: Path,
        files: WatchedFiles,
        name: str,
        value: Any,
        known: Collection[str] | None = None,
        *,
        line: int | None = None,
    ) -> None:
        self.path = path
        self.name = name
        self._files = files
        self._line = line
        if value is not None and not isinstance(value, _Mapping):
            raise DocumentError(path, name, f"expected keys with values, not {_kind(value)}", line)
        self.values: _Mapping = value or _Mapping()
        for key in self.values:
            if known is not None and key not in known:
                raise self.error(key, f"unknown key; remove it, or use one of {', '.join(known)}")

    def error(self, key: str, problem: str) -> DocumentError:
        """Return an error about the value of `key`, with its line, or the section's if it is absent."""
        return DocumentError(self.path, self._place(key), problem, self.values.lines.get(key, self._line))

    def section(self, key: str, known: Collection[str] | None = None) -> Section:
        """Return the section under `key`, an empty one if absent."""
        line = self.values.lines.get(key, self._line)
        return Section(self.path, self._files, self._place(key), self.values.get(key), known, line=line)

    def text(self, key: str) -> str:
        """Return the text, "" if there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(key, f"expected text, not {_kind(value)}; put it in quotes if it is meant as text")
        return value or ""

    def texts(self, key: str) -> list[str]:
        """Return the list of texts, [] if there is none."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, "expected a list of texts; write one per line, each after a dash")
        return value

    def choices(self, key: str, names: Collection[str], options: Mapping[str, T]) -> list[T]:
        """Return what these names in the value of `key` stand for."""
        for name in names:
            if name not in options:
                raise self.error(key, f"{name} is unknown or insecure; use one of {', '.join(options)}")
        return [options[name] for name in names]

    def flag(self, key: str, default: bool) -> bool:
        """Return the truth value, `default` if there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {_kind(value)}")
        return default if value is None else value

    def content(self, key: str) -> bytes | None:
        """Return the content of the file named under `key`, relative to the configuration's folder; None if absent."""
        name = self.text(key)
        if not name:
            return None
        path = self.path.parent / name
        try:
            return self._files.read(path)
        except OSError as error:
            problem = f"cannot read {path}: {error.strerror}; check the path and that this user may read it"
            raise self.error(key, problem) from None

    def _place(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _kind(value: Any) -> str:
    return {bool: "true or false", list: "a list", _Mapping: "keys with values", str: "text"}[type(value)]


def _parse(path: Path, content: bytes) -> Any:
    """Return the YAML document as None, str, bool, list and dict.

    Numbers stay text, like in exporter-toolkit: `007` may be a user's name and `0` a header's value.
    """
    # Imported here, so that an exporter without a web configuration needs no YAML on its host.
    try:
        import yaml  # noqa: PLC0415
    except ImportError:
        raise DocumentError(path, "", "reading it needs PyYAML; install it (Debian: python3-yaml)") from None

    @cache  # an alias; nested aliases could expand without limit
    def plain(node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            mapping = _Mapping()
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise DocumentError(path, "", "a key must be plain text", line)
                if key.value in mapping:
                    raise DocumentError(path, "", f"{key.value} is given twice; keep one", line)
                mapping[key.value] = plain(value)
                mapping.lines[key.value] = line
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [plain(item) for item in node.value]
        kind = node.tag.rpartition(":")[2]
        if kind == "bool":
            return node.value.lower() in {"true", "yes", "on"}
        return None if kind == "null" else str(node.value)

    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
        return None if node is None else plain(node)
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        # Only the position: the parser's message may quote a secret.
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = f"{place}not valid YAML; check indentation, colons and quotes"
        raise DocumentError(path, "", problem) from None


class WatchedFiles:
    """The files of a configuration, each with its state just before it was read."""

    def __init__(self) -> None:
        self._stamps: dict[Path, tuple[int, ...] | None] = {}

    def read(self, path: Path) -> bytes:
        """Return the content; raises OSError."""
        if "\0" in str(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # Python would raise a ValueError
        self._stamps[path] = _stamp(path)  # first, so that the next check notices a change while reading
        return path.read_bytes()

    def unchanged(self) -> bool:
        """Whether all files are unchanged; costs a stat() each."""
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # Not the modification time: only the change time shows fixed permissions, and writers can't set it back.
    return found.st_ino, found.st_size, found.st_ctime_ns
