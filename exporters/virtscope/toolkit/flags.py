"""The command-line flags of every exporter, named as Prometheus's own exporters name them."""

from __future__ import annotations

import argparse
import platform
import re
from collections.abc import Sequence
from typing import Callable

from virtscope import __version__
from virtscope.toolkit.record import add_arguments

REPLAY = "replay:FILE"


def parser(program: str, description: str, default_port: int) -> argparse.ArgumentParser:
    """Return a parser with the shared flags; an exporter adds those of its sources.

    `program` is the console script's name, such as "xentop-exporter".
    """
    flags = _parser(program, description)
    flags.epilog = f"To record this host into a file: {program} record --help"
    flags.add_argument(
        "--web.listen-address",
        dest="listen_address",
        type=listen_address,
        default=f"127.0.0.1:{default_port}",
        metavar="HOST:PORT",
        help='address to listen on; "[::1]:PORT" for IPv6, ":PORT" for every address of the host',
    )
    flags.add_argument(
        "--web.config.file",
        dest="web_config_file",
        default="",
        metavar="FILE",
        help="TLS and basic auth, in the format of Prometheus's exporter-toolkit",
    )
    flags.add_argument(
        "--web.telemetry-path",
        dest="telemetry_path",
        type=_telemetry_path,
        default="/metrics",
        metavar="PATH",
        help="path under which the metrics are served",
    )
    _add_shared(flags, program)
    return flags


def recorder(program: str) -> argparse.ArgumentParser:
    """Return a parser with the flags of a program's `record`; an exporter adds those of its sources."""
    flags = _parser(f"{program} record", "Records what the exporter reads on this host, to be played elsewhere.")
    add_arguments(flags)
    _add_shared(flags, program)
    return flags


def _parser(program: str, description: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=program,
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )


def _add_shared(flags: argparse.ArgumentParser, program: str) -> None:
    flags.add_argument(
        "--log.level",
        dest="log_level",
        choices=["debug", "info", "warn", "error"],
        default="info",
        help="least severity that is logged",
    )
    flags.add_argument(
        "--log.format", dest="log_format", choices=["logfmt", "json"], default="logfmt", help="form of the log lines"
    )
    flags.add_argument("--path.procfs", dest="procfs", default="/proc", metavar="DIR", help="where procfs is mounted")
    flags.add_argument("--path.sysfs", dest="sysfs", default="/sys", metavar="DIR", help="where sysfs is mounted")
    flags.add_argument(
        "--version",
        action="version",
        version=f"{program}, version {__version__} (Python {platform.python_version()})",
        help="print the version and exit",
    )


def add_replay(flags: argparse.ArgumentParser) -> None:
    """Add how an exporter plays a recording that its --source names."""
    flags.add_argument(
        "--replay.speed",
        dest="replay_speed",
        type=_speed,
        default=1.0,
        metavar="FACTOR",
        help="play a recording at this many times its pace",
    )
    flags.add_argument(
        "--replay.once",
        dest="replay_once",
        action="store_true",
        help="play a recording once instead of round and round; at its end the source fails as unavailable",
    )


def source(choices: Sequence[str]) -> Callable[[str], str]:
    """Return the type of a --source that takes these; REPLAY among them stands for any file."""

    def chosen(text: str) -> str:
        if text in choices or (REPLAY in choices and re.fullmatch("replay:.+", text)):
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(choices)}")

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
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535 or (":" in host and not bracketed):
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:9100 or [::1]:9100")
    host.encode("idna")  # raises ValueError for what can't be a host's name; looking it up would raise it much later
    return host.strip("[]"), int(port)


def address_text(host: str, port: int) -> str:
    """Join what `listen_address` splits."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _telemetry_path(text: str) -> str:
    # Anything else would have to be escaped in a request, or (?, //) would never match one.
    if not re.fullmatch(r"(/[\w.~-]+)+/?", text, re.ASCII) or text == "/-/healthy":
        raise argparse.ArgumentTypeError(
            f"{text!r} must be a path such as /metrics, of letters, digits and . _ ~ -, other than / and /-/healthy"
        )
    return text
