"""The line for a watched host's authorized_keys: one key, which can run host.sh and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

SCRIPT = Path(__file__).with_name("host.sh")

# `restrict` came with OpenSSH 7.2. Before, what it stands for is named one by one; an option that a sshd doesn't know
# makes it ignore the whole line. (Without a pty and a shell, ~/.ssh/rc has nothing to do that the command allows.)
_RESTRICTIONS = "restrict"
_RESTRICTIONS_BEFORE_7_2 = "no-pty,no-port-forwarding,no-agent-forwarding,no-X11-forwarding,no-user-rc"

_PUBLIC_KEY = re.compile(r"(?:sk-)?(?:ssh|ecdsa)-[A-Za-z0-9@.-]+ [A-Za-z0-9+/]+=*(?: [ -~]*)?")


def line(public_key: str, *, before_7_2: bool = False) -> str:
    """Return the line for a key, as its .pub file holds it; raises ValueError where that is none."""
    key = public_key.strip()
    if not _PUBLIC_KEY.fullmatch(key):
        raise ValueError("this is no public key: give the file that ssh-keygen made, FILE.pub")
    escaped = command().replace('"', r"\"")
    return f'{_RESTRICTIONS_BEFORE_7_2 if before_7_2 else _RESTRICTIONS},command="{escaped}" {key}'


def command(script: str | None = None, shell: str = "/bin/sh") -> str:
    """Return the forced command: the script on one line, run by `shell` whatever the account's own one is."""
    lines = map(str.strip, (SCRIPT.read_text() if script is None else script).splitlines())
    return f"exec {shell} -c '" + " ".join(each for each in lines if each and not each.startswith("#")) + "'"
