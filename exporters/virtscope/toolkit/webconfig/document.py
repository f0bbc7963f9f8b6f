"""The configuration file as sections, which give their values by key and type, and the files that it was read from."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")


class WebConfigError(Exception):
    """The configuration can't be used. The message is one line: the file, the key, what is wrong, what to do.

    It never holds a password, a hash, or any part of a key.
    """

    def __init__(self, path: Path, key: str, problem: str) -> None:
        super().__init__(" ".join(": ".join(part for part in (str(path), key, problem) if part).split()))


def read_document(path: Path, files: WatchedFiles) -> Section:
    """Read the configuration file; its sections read the files they name through `files` too."""
    try:
        content = files.read(path)
    except OSError as error:
        raise WebConfigError(path, "", f"{error.strerror}; give --web.config.file a file this user may read") from None
    return Section(path, files, "", _parse(path, content), SECTIONS)


class Section:
    """One mapping of the file.

    As in the toolkit, a key without a value, or with an empty one, counts as absent. What is of the wrong type raises
    WebConfigError when it is asked for.

    name: its place in the file, such as "http_server_config.headers"; "" for the whole file.
    known: the keys that the format has here; None if any will do.
    """

    def __init__(
        self, path: Path, files: WatchedFiles, name: str, value: Any, known: Collection[str] | None = None
    ) -> None:
        self.path = path
        self.name = name
        self._files = files
        if value is not None and not isinstance(value, dict):
            raise WebConfigError(path, name, f"expected keys with values, not {_kind(value)}")
        self.values: dict[str, Any] = value or {}
        for key in self.values:
            if known is not None and key not in known:
                raise self.error(key, f"unknown key; remove it, or use one of {', '.join(known)}")

    def error(self, key: str, problem: str) -> WebConfigError:
        """Return the error that says what is wrong with the value under `key`."""
        return WebConfigError(self.path, self._place(key), problem)

    def section(self, key: str, known: Collection[str] | None = None) -> Section:
        """Return the section under `key`, an empty one if there is none."""
        return Section(self.path, self._files, self._place(key), self.values.get(key), known)

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

    def flag(self, key: str, default: bool) -> bool:
        """Return the truth value, `default` if there is none."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.error(key, f"expected true or false, not {_kind(value)}")
        return default if value is None else value

    def content(self, key: str) -> bytes | None:
        """Return the content of the file named under `key`, relative to the configuration's folder; None if none is."""
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
    return {bool: "true or false", list: "a list", dict: "keys with values", str: "text"}[type(value)]


def _parse(path: Path, content: bytes) -> Any:
    """Return the YAML document as None, str, bool, list and dict.

    Numbers stay text, as the format's own decoder turns `007` into a user's name and `0` into a header's value.
    """
    # Imported here, so that an exporter without a web configuration needs no YAML on its host.
    try:
        import yaml  # noqa: PLC0415
    except ImportError:
        raise WebConfigError(path, "", "reading it needs PyYAML; install it (Debian: python3-yaml)") from None

    @cache  # an alias is its anchor's node again, and aliases of aliases of aliases would be without end
    def plain(node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            mapping: dict[str, Any] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise WebConfigError(path, "", f"line {line}: a key must be plain text")
                if key.value in mapping:
                    raise WebConfigError(path, "", f"line {line}: {key.value} is given twice; keep one")
                mapping[key.value] = plain(value)
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
        # The place alone: the parser's own message can quote a secret.
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = f"{place}not valid YAML; check indentation, colons and quotes"
        raise WebConfigError(path, "", problem) from None


class WatchedFiles:
    """The files a configuration was read from, each as it was just before it was read."""

    def __init__(self) -> None:
        self._stamps: dict[Path, tuple[int, ...] | None] = {}

    def read(self, path: Path) -> bytes:
        """Return the content; raises OSError."""
        if "\0" in str(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # Python would raise a ValueError
        self._stamps[path] = _stamp(path)  # first: a change while it is read then shows at the next look
        return path.read_bytes()

    def unchanged(self) -> bool:
        """Say whether every file looks as it did; costs a stat each."""
        return all(_stamp(path) == stamp for path, stamp in self._stamps.items())


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # Not the modification time: only the change time shows repaired permissions, and no writer can set it back.
    return found.st_ino, found.st_size, found.st_ctime_ns
