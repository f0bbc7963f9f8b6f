"""Section `basic_auth_users`: users and their bcrypt hashes."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from virtscope.toolkit.document import Section

# $2b$COST$, then 16 bytes of salt and 23 of hash in bcrypt's base64; the salt's last letter holds two bits only.
BCRYPT_HASH = re.compile(r"\$2[aby]\$(0[4-9]|[12][0-9]|3[01])\$[./A-Za-z0-9]{21}[.Oeu][./A-Za-z0-9]{31}")
BCRYPT_MAX_BYTES = 72
MAX_REFUSALS = 100  # remembered wrong passwords; as many entries as the toolkit's cache has
MAX_CHECKS = 24  # of all clients; fewer than concurrent requests, so that others get threads
MAX_CHECKS_OF_A_CLIENT = 8  # waiting for bcrypt; fewer than a client's concurrent requests
MAX_PAUSE_SECONDS = 0.25
_HASHED = "bcrypt.hashpw(getpass.getpass().encode(), bcrypt.gensalt(10))"
_MAKES_ONE = f"python3 -c 'import bcrypt, getpass; print({_HASHED}.decode())'"


def read_passwords(document: Section) -> Passwords | None:
    """Return the users' passwords, None if there are no users."""
    users = document.section("basic_auth_users")
    for name, value in users.values.items():
        if not isinstance(value, str) or not BCRYPT_HASH.fullmatch(value):
            raise users.error(name, f"not a bcrypt hash; make one with: {_MAKES_ONE}")
    if not users.values:
        return None
    # Imported here, so that an exporter without passwords needs no bcrypt on its host.
    try:
        import bcrypt  # noqa: PLC0415
    except ImportError:
        problem = "checking passwords needs the bcrypt module; install it (Debian: python3-bcrypt)"
        raise document.error("basic_auth_users", problem) from None
    return Passwords({name: value.encode() for name, value in users.values.items()}, bcrypt.checkpw)


class TooManyGuesses(Exception):
    """Too many passwords of the client are waiting for bcrypt."""


class Passwords:
    """The users' bcrypt hashes, and bcrypt's verdicts on the passwords seen so far.

    bcrypt is too slow for every scrape, so verdicts are cached, by a keyed digest of the password. The right one of
    each user is cached separately, so that wrong guesses can't evict it.

    check: `bcrypt.checkpw`.
    """

    def __init__(self, hashes: Mapping[str, bytes], check: Callable[[bytes, bytes], bool]) -> None:
        self._hashes = hashes
        self._check = check
        # The hash for unknown users, as costly as the users' own: otherwise the time of a refusal would show which
        # users exist.
        cost = max(hash_[4:6] for hash_ in hashes.values())
        self._unknown_users_hash = b"$2b$" + cost + b"$Q8oMliaNfqYUuKCF8EGbNuL7/w.ZZyjzzBG5JIQZkWYSvjlvIQmYy"
        self._digest_key = secrets.token_bytes(32)
        self._right: dict[str, bytes] = {}
        self._wrong: set[bytes] = set()
        # bcrypt is slow by design: a flood of guesses may use only a part of one CPU.
        self._bcrypt_lock = threading.Lock()
        self._checks: Counter[str] = Counter()  # under way, by client
        self._checks_lock = threading.Lock()

    def match(self, user: str, password: bytes, client: str = "") -> bool:
        """Whether `password`, sent by this client, is the user's.

        Raises TooManyGuesses, but never for a cached password.
        """
        # bcrypt ignores everything after 72 bytes or a NUL.
        if len(password) > BCRYPT_MAX_BYTES or b"\0" in password:
            return False
        name = user.encode("utf-8", "surrogateescape")
        digest = hmac.digest(self._digest_key, b"%d:%b%b" % (len(name), name, password), "sha256")
        known = self._remembered(user, digest)
        return self._ask_bcrypt(user, password, digest, client) if known is None else known

    def _ask_bcrypt(self, user: str, password: bytes, digest: bytes, client: str) -> bool:
        with self._checks_lock:
            if self._checks[client] >= MAX_CHECKS_OF_A_CLIENT or sum(self._checks.values()) >= MAX_CHECKS:
                raise TooManyGuesses
            self._checks[client] += 1
        try:
            with self._bcrypt_lock:
                known = self._remembered(user, digest)  # another thread may have checked it meanwhile
                if known is None:
                    begun = time.thread_time()
                    matches = self._check(password, self._hashes.get(user, self._unknown_users_hash))
                    known = matches and user in self._hashes
                    self._remember(user, digest, known)
                    if not known:  # limits guesses to a quarter of a CPU if bcrypt takes up to 83 ms
                        time.sleep(min(3 * (time.thread_time() - begun), MAX_PAUSE_SECONDS))
                return known
        finally:
            with self._checks_lock:
                self._checks[client] -= 1
                self._checks = +self._checks  # drop zero counts

    def _remembered(self, user: str, digest: bytes) -> bool | None:
        if hmac.compare_digest(self._right.get(user, b""), digest):
            return True
        return False if digest in self._wrong else None

    def _remember(self, user: str, digest: bytes, right: bool) -> None:
        if right:
            self._right[user] = digest
            return
        if len(self._wrong) >= MAX_REFUSALS:
            self._wrong.clear()
        self._wrong.add(digest)


def basic_credentials(authorization: str | None) -> tuple[str, bytes] | None:
    """Return user and password of an Authorization header (RFC 7617), None if missing or malformed."""
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    # A name that isn't UTF-8 becomes one that can't be in the file.
    return (user.decode("utf-8", "surrogateescape"), password) if colon else None
