"""Log lines in logfmt or JSON, on standard error.

Fields ride along by the standard library's own `extra`: `log.info("listening", extra={"fields": {"address": a}})`.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import datetime, timezone

_PLAIN = re.compile(r"[\w.:/@+-]+", re.ASCII)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


def configure(level: str, form: str) -> None:
    """Send every logger's lines to standard error, from `level` ("debug".."error") up, as "logfmt" or "json"."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Logfmt())
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)


class _Logfmt(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in _facts(record).items())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_facts(record), default=str)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    facts: dict[str, object] = {
        "ts": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower().replace("warning", "warn"),
        "msg": record.getMessage(),
    }
    facts.update(getattr(record, "fields", {}))
    if record.exc_info:
        facts["stack"] = logging.Formatter().formatException(record.exc_info)
    return facts


def _logfmt_value(value: object) -> str:
    text = str(value)
    # json.dumps also escapes control characters: a guest's name can't forge a line or reach the reader's terminal.
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
