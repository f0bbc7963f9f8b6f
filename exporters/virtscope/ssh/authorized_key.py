"""The line for a watched host's authorized_keys: a key that can only run host.sh."""

from __future__ import annotations

import re
from pathlib import Path

SCRIPT = Path(__file__).with_name("host.sh")

# `restrict` needs OpenSSH 7.2. Older versions need the single options, because sshd ignores lines with unknown ones.
_RESTRICTIONS = "restrict"
_RESTRICTIONS_BEFORE_7_2 = "no-pty,no-port-forwarding,no-agent-forwarding,no-X11-forwarding,no-user-rc"

_PUBLIC_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/]+=*(?: [ -~]*)?")


def line(public_key: str, *, before_7_2: bool = False) -> str:
    """Return the line for the content of a .pub file; raises ValueError if that isn't a key."""
    key = public_key.strip()
    if not _PUBLIC_KEY.fullmatch(key):
        raise ValueError("this is no public key: give the file that ssh-keygen made, FILE.pub")
    escaped = command().replace('"', r"\"")
    return f'{_RESTRICTIONS_BEFORE_7_2 if before_7_2 else _RESTRICTIONS},command="{escaped}" {key}'


def command(script: str | None = None, shell: str = "/bin/sh") -> str:
    """Return the forced command: the script on one line, run by `shell` instead of the account's shell."""
    lines = map(str.strip, (SCRIPT.read_text() if script is None else script).splitlines())
    return f"exec {shell} -c '" + " ".join(each for each in lines if each and not each.startswith("#")) + "'"
