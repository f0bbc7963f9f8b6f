"""Passwords: accepted clients, and the cost of guesses."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import bcrypt
import pytest

from tests.support.waiting import wait_for
from tests.unit.toolkit.webconfig.pki import ALICES_HASH, ALICES_PASSWORD, Pki, basic
from virtscope.toolkit import answering
from virtscope.toolkit.webconfig import TooManyGuesses, auth


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The hashes that bcrypt was called with."""
    asked: list[bytes] = []
    checkpw = bcrypt.checkpw

    def counting(password: bytes, hashed_password: bytes) -> bool:
        asked.append(hashed_password)
        return checkpw(password, hashed_password)

    monkeypatch.setattr(bcrypt, "checkpw", counting)
    return asked


def test_only_the_right_user_with_the_right_password_may_ask(pki: Pki) -> None:
    longest = "battery:" + "x" * 64  # 72 bytes are the most that bcrypt takes
    bobs_hash = bcrypt.hashpw(longest.encode(), b"$2b$04$" + b"virtscope.tests.saltuO").decode()
    wrong = [
        *(("alice", password) for password in (longest, "", ALICES_PASSWORD + "!")),
        *(("björn", password) for password in (longest + "y", longest[:71], longest[:10] + "\0" + longest[10:])),
        *((user, ALICES_PASSWORD) for user in ("Alice", "", "mallory", b"\xff")),
    ]
    for prefix in ("$2a$", "$2b$", "$2y$"):
        web = pki.load(f"basic_auth_users: {{alice: {prefix}{ALICES_HASH[4:]}, björn: {bobs_hash}}}")
        for _ in range(2):  # bcrypt the first time, then cached
            assert web.allows(basic("alice", ALICES_PASSWORD))
            assert web.allows(basic("alice", ALICES_PASSWORD).replace("Basic", "bASIC"))
            assert web.allows(basic("björn", longest))
            for user, password in wrong:
                assert not web.allows(basic(user, password)), (user, password)
    credentials = basic("alice", ALICES_PASSWORD).partition(" ")[2]
    alone = "Basic YWxpY2U="  # "alice", without a colon
    cut = "Basic YWxpY2U6Y29ycmVjdCBob3JzZQ"  # without its padding
    malformed = ["Basic \xff\xfe", "Basic YWxpY2U6\u20acY29y", f"Bearer {credentials}", credentials]
    for header in (None, "", "Basic", "Basic ", "Basic !!!", alone, cut, *malformed):
        assert not web.allows(header), header


def test_an_unknown_user_costs_as_much_as_a_known_one(pki: Pki, checks: list[bytes]) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {bcrypt.hashpw(b'x', bcrypt.gensalt(5)).decode()}}}")
    assert not web.allows(basic("alice", "guess"))
    assert not web.allows(basic("mallory", "guess"))
    assert [hash_[4:6] for hash_ in checks] == [b"05", b"05"]


def test_a_flood_of_guesses_neither_grows_memory_nor_pushes_out_the_right_password(
    pki: Pki, checks: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bcrypt runs once for each cached password, however many scrapes arrive simultaneously."""
    monkeypatch.setattr(auth, "MAX_REFUSALS", 5)
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(web.allows, [basic("alice", ALICES_PASSWORD)] * 8))
    for guess in [*range(11), 10]:
        assert not web.allows(basic("alice", str(guess)))
    assert web.allows(basic("alice", ALICES_PASSWORD))
    assert len(checks) == 1 + 11
    assert not web.allows(basic("alice", "0"))  # forgotten, so bcrypt was called again
    assert len(checks) == 1 + 12


class Guesses:
    """Wrong and right passwords, each in its own thread; each check waits until it is released."""

    def __init__(self, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
        self.web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}, bob: {ALICES_HASH}}}")
        assert self.web.allows(basic("alice", ALICES_PASSWORD), "192.0.2.1")
        self.let = threading.Event()
        self.outcomes: list[object] = []
        self._threads: list[threading.Thread] = []
        assert self.web._loaded.passwords
        monkeypatch.setattr(self.web._loaded.passwords, "_check", self._check)

    def _check(self, password: bytes, hash_: bytes) -> bool:
        self.let.wait(30)
        return bcrypt.checkpw(password, hash_)

    def begin(self, password: str, client: str) -> None:
        self._threads.append(threading.Thread(target=self._guess, args=(password, client)))
        self._threads[-1].start()

    def _guess(self, password: str, client: str) -> None:
        try:
            self.outcomes.append(self.web.allows(basic("bob", password), client))
        except TooManyGuesses:
            self.outcomes.append("too many")

    def wait_until_refused(self, count: int) -> None:
        """This many, and no other has an answer."""
        wait_for(lambda: len(self.outcomes) >= count, 30)
        time.sleep(0.1)  # gives forbidden events time to happen
        assert self.outcomes == ["too many"] * count

    def finish(self) -> None:
        self.let.set()
        for thread in self._threads:
            thread.join(30)


def test_guesses_of_one_client_hold_up_neither_others_nor_what_is_known(
    pki: Pki, monkeypatch: pytest.MonkeyPatch
) -> None:
    guesses = Guesses(pki, monkeypatch)
    for number in range(20):
        guesses.begin(str(number), "192.0.2.1")
    guesses.wait_until_refused(20 - auth.MAX_CHECKS_OF_A_CLIENT)
    assert guesses.web.allows(basic("alice", ALICES_PASSWORD), "192.0.2.1"), "a known password waits for no guess"
    guesses.begin(ALICES_PASSWORD, "192.0.2.2")
    guesses.finish()
    assert guesses.outcomes.count(True) == 1
    assert guesses.outcomes.count(False) == auth.MAX_CHECKS_OF_A_CLIENT
    # Guesses of many clients: each waits in one of the threads that answer requests.
    assert auth.MAX_CHECKS < answering.MAX_REQUESTS
    guesses = Guesses(pki, monkeypatch)
    for number in range(answering.MAX_REQUESTS):
        guesses.begin(str(number), f"192.0.2.{number}")
    guesses.wait_until_refused(answering.MAX_REQUESTS - auth.MAX_CHECKS)
    guesses.finish()


def test_a_wrong_guess_makes_the_next_one_wait(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    web = pki.load(f"basic_auth_users: {{alice: {bcrypt.hashpw(b'x', bcrypt.gensalt(6)).decode()}}}")
    assert web.allows(basic("alice", "x"))
    assert pauses == []
    assert not web.allows(basic("alice", "wrong"))
    assert not web.allows(basic("alice", "wrong"))  # cached by now
    assert len(pauses) == 1
    assert 0 < pauses[0] <= auth.MAX_PAUSE_SECONDS


def test_passwords_are_not_kept(pki: Pki) -> None:
    web = pki.load(f"basic_auth_users: {{alice: {ALICES_HASH}}}")
    web.allows(basic("alice", ALICES_PASSWORD))
    web.allows(basic("alice", "wrong guess"))
    kept = repr([vars(web), web._loaded, vars(web._loaded.passwords)])
    assert ALICES_PASSWORD not in kept
    assert "wrong guess" not in kept
