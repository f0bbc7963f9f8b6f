"""The shared parts of every exporter's main(): flags, log, serving until a signal.

Flags are named like those of Prometheus's own exporters.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import ctypes
import difflib
import gc
import json
import logging
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NoReturn

from virtscope import __version__
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.document import DocumentError
from virtscope.toolkit.pages import Probes
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Exporter
from virtscope.toolkit.server import Server
from virtscope.toolkit.webconfig import WebConfig

log = logging.getLogger(__name__)

REPLAY = "replay:FILE"  # a choice of source(): any file

_M_MMAP_THRESHOLD = -3  # malloc.h
_PLAIN = re.compile(r"[\w.:/@+-]+", re.ASCII)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, without the usage, and suggests the nearest flag."""

    def error(self, message: str) -> NoReturn:
        hint = ""
        if unknown := re.match(r"unrecognized arguments: (--[^=\s]+)", message):
            flags = re.findall(r"--[\w.-]+", self.format_help())
            hint = "".join(f"; did you mean {near}?" for near in difflib.get_close_matches(unknown[1], flags, n=1))
        self.exit(2, f"{self.prog}: error: {message}{hint or f'; see {self.prog} --help'}\n")


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, except empty ones."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in ("", [], None) else super()._get_help_string(action)


def parser(program: str, description: str, default_port: int, *, of_this_host: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the shared flags; an exporter adds its own.

    `program` is the console script's name, such as "xentop-exporter". `of_this_host` is False if it reads other hosts.
    """
    flags = _parser(program, description)
    if of_this_host:
        flags.epilog = f"To record this host into a file: {program} record --help"
    add(
        flags,
        "--web.listen-address",
        "HOST:PORT",
        'address to listen on; "[::1]:PORT" for IPv6, ":PORT" for every address of the host',
        dest="listen_address",
        type=listen_address,
        default=f"127.0.0.1:{default_port}",
    )
    in_format = "TLS and basic auth, in the format of Prometheus's exporter-toolkit"
    add(flags, "--web.config.file", "FILE", in_format, dest="web_config_file", default="")
    path = "path under which the metrics are served"
    add(flags, "--web.telemetry-path", "PATH", path, dest="telemetry_path", type=_telemetry_path, default="/metrics")
    _add_shared(flags, program, of_this_host=of_this_host)
    return flags


def add(flags: argparse.ArgumentParser, name: str, metavar: str | None, text: str, **more: Any) -> None:
    """Add a flag that takes a value, with this help; without `metavar`, it shows its choices."""
    flags.add_argument(name, metavar=metavar, help=text, **more)


def add_interval(flags: argparse.ArgumentParser, program: str, text: str, default: str) -> None:
    """Add the flag for the time between two runs of a program, in the background; 0.0 for "0", which means never."""
    dest, metavar = f"{program}_interval", "DURATION"
    add(flags, f"--{program}.interval", metavar, text, dest=dest, type=interval_or_never, default=default)


def recorder(program: str) -> argparse.ArgumentParser:
    """Return a parser for a program's `record`; an exporter adds its own flags."""
    flags = _parser(f"{program} record", "Records what the exporter reads on this host, to be played elsewhere.")
    add(flags, "file", "FILE", "the recording, a new file, such as host.jsonl.gz", type=Path)
    long = "how long to record, such as 90s, 10m or 1h; Ctrl-C ends it earlier"
    add(flags, "--for", "DURATION", long, dest="seconds", type=duration, default="10m")
    add(flags, "--interval", "DURATION", "time between two readings", type=duration, default="1s")
    replaced = "replace names, UUIDs and addresses by pseudonyms, consistently"
    flags.add_argument("--anonymise", action="store_true", help=replaced)
    _add_shared(flags, program)
    return flags


def terminal(program: str, description: str) -> argparse.ArgumentParser:
    """Return a parser for a program that shows this host in a terminal."""
    flags = _parser(program, description)
    _add_shared(flags, program)
    return flags


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    return _Parser(
        prog=program,
        description=description,
        formatter_class=_Help,
        allow_abbrev=False,
    )


def _add_shared(flags: argparse.ArgumentParser, program: str, *, of_this_host: bool = True) -> None:
    severity, form = "least severity that is logged", "form of the log lines"
    add(flags, "--log.level", None, severity, dest="log_level", choices=[*_LEVELS], default="info")
    add(flags, "--log.format", None, form, dest="log_format", choices=["logfmt", "json"], default="logfmt")
    if of_this_host:
        for name, mounted in (("procfs", "/proc"), ("sysfs", "/sys")):
            add(flags, f"--path.{name}", "DIR", f"where {name} is mounted", dest=name, default=mounted)
    flags.add_argument(
        "--version",
        action="version",
        version=f"{program}, version {__version__} (Python {platform.python_version()})",
        help="print the version and exit",
    )


def add_replay(flags: argparse.ArgumentParser, *, add_source: bool = True) -> None:
    """Add the flags for playing a recording, with a --source that accepts nothing else."""
    if add_source:
        instead = "play a recording instead of reading this host"
        add(flags, "--source", REPLAY, instead, type=source([REPLAY]), default=argparse.SUPPRESS)
    pace = "play a recording at this many times its pace"
    add(flags, "--replay.speed", "FACTOR", pace, dest="replay_speed", type=_speed, default=1.0)
    flags.add_argument(
        "--replay.once",
        dest="replay_once",
        action="store_true",
        help="play a recording once instead of round and round; at its end the source fails as unavailable",
    )


def source(choices: Sequence[str]) -> Callable[[str], str]:
    """Return the type of --source with these choices; REPLAY accepts any file."""

    def chosen(text: str) -> str:
        if text in choices or (REPLAY in choices and re.fullmatch("replay:.+", text)):
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")

    return chosen


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 < speed <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a factor above 0, such as 1 or 60")
    return speed


def listen_address(text: str) -> tuple[str, int]:
    """Split "HOST:PORT", "[IPV6]:PORT" or ":PORT" into host and port; an empty host means every address."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or (":" in host and not bracketed):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9100 or [::1]:9100")
    if int(port) > 65535:
        raise argparse.ArgumentTypeError(f"port {port} is above 65535")
    host.encode("idna")  # raises ValueError for an impossible host name, which the lookup would do much later
    return host.strip("[]"), int(port)


def address_text(host: str, port: int) -> str:
    """The reverse of `listen_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _telemetry_path(text: str) -> str:
    # Other characters need escaping in a request, or never match one (?, //).
    if not re.fullmatch(r"(/[\w.~-]+)+/?", text, re.ASCII) or text == "/-/healthy":
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a path such as /metrics, of letters, digits and . _ ~ -, other than / and /-/healthy"
        )
    return text


_SECONDS = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
# As Prometheus writes them: whole numbers; each unit at most once, the largest first.
_DURATION = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _SECONDS), re.ASCII)


def duration(text: str) -> float:
    """Return the seconds of a duration such as "90s" or "1m30s"; "90" and "1.5h" too."""
    one, several = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhd]?)", text, re.ASCII), _DURATION.fullmatch(text)
    seconds = 0.0
    if one:
        seconds = float(one[1]) * _SECONDS[one[2] or "s"]
    elif several:
        seconds = sum(int(number) * unit for number, unit in zip(several.groups(), _SECONDS.values()) if number)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration above 0, such as 90s, 1m30s or 500ms")
    return seconds


def interval_or_never(text: str) -> float:
    """Return the seconds of a duration; 0, which means never, for "0"."""
    try:
        return 0.0 if text == "0" else duration(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; 0 is never") from error


# --- From flags to a server that ends ---------------------------------------------------------------------------------


def start(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the flags and set up the log."""
    given = parser.parse_args(arguments)
    log_to_stderr(given.log_level, given.log_format)
    log.info(f"starting {parser.prog}", extra={"fields": {"version": __version__}})
    return given


def playback(exporter: str, given: argparse.Namespace) -> Playback | None:
    """Return the recording of --source=replay:FILE, None for any other source; exits with 1 if it is unusable."""
    kind, _, file = getattr(given, "source", "").partition(":")
    if kind != "replay":
        return None
    try:
        played = Playback(Path(file), exporter, given.replay_speed, given.replay_once)
    except SourceError as error:
        sys.exit(f"{exporter}-exporter: {error}")
    log.warning(
        "replaying a recording: no value is live",
        extra={"fields": {"file": file, "recorded": played.header.recorded, "speed": f"{given.replay_speed:g}"}},
    )
    return played


def serve(exporter: Exporter, given: argparse.Namespace, probes: Probes | None = None) -> None:
    """Serve until SIGTERM or SIGINT; exits with 1 and one line if web configuration or address is unusable."""
    program = f"{exporter.name}-exporter"
    try:
        web = WebConfig(given.web_config_file) if given.web_config_file else None
        if web:
            exporter.certificate_not_after = web.certificate_not_after
        server = Server(given.listen_address, given.telemetry_path, web, exporter, probes)
    except DocumentError as error:
        sys.exit(f"{program}: {error}")
    except OSError as error:
        address = address_text(*given.listen_address)
        sys.exit(f"{program}: can't listen on {address}: {error.strerror}; choose another --web.listen-address")
    serve_until_stopped(server)


def serve_until_stopped(server: Server) -> None:
    """Serve until SIGTERM or SIGINT, then finish running scrapes and return. SIGHUP checks --web.config.file."""
    # Python runs handlers only in the main thread, between two system calls: a signal just before a blocking call
    # doesn't interrupt it. The signal itself writes to a wake-up descriptor, so none is missed.
    came, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: None)
    # A scrape makes many objects but no cycles. Garbage collection took up to a fifth of its CPU.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    # After the first large free(), glibc raises its mmap threshold and allocates large pages from per-thread heaps,
    # which fragment: 170 MB instead of 98 MB with 300 guests under a flood of requests. Only glibc has this setting.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 << 10)  # glibc's default, now fixed
    threading.Thread(target=server.serve_forever, name="connections", daemon=True).start()
    host, port = server.server_address[:2]
    log.info(
        "listening",
        extra={"fields": {"address": address_text(host, port), "tls": bool(server.web and server.web.ssl_context())}},
    )
    while os.read(came, 1)[0] == signal.SIGHUP:
        if server.web:
            server.web.check()
    log.info("stopping")
    server.shutdown()
    server.server_close()
    # Exit at once, after the caller's files are closed. Shutting down the interpreter restores the signal handlers, so
    # a late signal would set the exit status, or crash if another thread is just receiving one.
    atexit.register(os._exit, 0)


# --- The log: logfmt or JSON, on standard error -----------------------------------------------------------------------


def log_to_stderr(level: str, form: str) -> None:
    """Send every logger's lines to standard error, from `level` ("debug".."error") up, as "logfmt" or "json".

    Fields come by the standard library's own `extra`: `log.info("listening", extra={"fields": {"address": a}})`.
    """
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
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # json.dumps escapes control characters: a guest's name can't forge a log line or control a terminal.
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
