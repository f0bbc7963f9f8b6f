"""The user's own ssh(1), which must ask for nothing."""

from __future__ import annotations

CONNECT_SECONDS = 15


def command(destination: str, there: str) -> list[str]:
    """The command that runs a line in a shell there; `destination` is as for ssh(1)."""
    return ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}", "--", destination, there]
