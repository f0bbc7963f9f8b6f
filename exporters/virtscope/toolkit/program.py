"""What the main() of every exporter does around its sources: read the flags, then serve until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from virtscope import __version__
from virtscope.toolkit import logs
from virtscope.toolkit.exporter import Exporter
from virtscope.toolkit.flags import address_text
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.server import Server, serve_until_stopped
from virtscope.toolkit.sources import SourceError
from virtscope.toolkit.webconfig import WebConfig, WebConfigError

log = logging.getLogger(__name__)


def start(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the flags that were given, by virtscope.toolkit.flags, with the log set up as they say."""
    given = parser.parse_args(arguments)
    logs.configure(given.log_level, given.log_format)
    log.info(f"starting {parser.prog}", extra={"fields": {"version": __version__}})
    return given


def playback(exporter: str, given: argparse.Namespace) -> Playback | None:
    """Return what --source=replay:FILE is to play, None for any other source; exits with 1 where it can't be played."""
    kind, _, file = getattr(given, "source", "").partition(":")
    if kind != "replay":
        return None
    try:
        played = Playback(Path(file), exporter, given.replay_speed, given.replay_once)
    except SourceError as error:
        sys.exit(f"{exporter}-exporter: {error}")
    log.warning(
        "replaying a recording: no figure is live",
        extra={"fields": {"file": file, "recorded": played.header.recorded, "speed": f"{given.replay_speed:g}"}},
    )
    return played


def serve(exporter: Exporter, given: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT; exits with 1 and one line where web configuration or address can't be used."""
    program = f"{exporter.name}-exporter"
    try:
        web = WebConfig.load(given.web_config_file) if given.web_config_file else None
        server = Server(given.listen_address, given.telemetry_path, web, exporter)
    except WebConfigError as error:
        sys.exit(f"{program}: {error}")
    except OSError as error:
        address = address_text(*given.listen_address)
        sys.exit(f"{program}: can't listen on {address}: {error.strerror}; choose another --web.listen-address")
    serve_until_stopped(server)
