"""Official releases, from a server that plays their sites. Needs no network."""

from __future__ import annotations

import hashlib
import http.server
import os
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.stack.release_site import SCRIPT, Site, archive, site
from tools import programs
from tools.programs import Got, catalogue, debian, releases
from tools.programs.catalogue import Packages, Release, Suite
from tools.programs.debian import Deb
from tools.programs.places import ProgramsError, UnavailableError

FILE = "hello-9.9.linux-amd64.tar.gz"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An amd64 machine with a cache and a checkout of its own, which has asked no site yet."""
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(releases.MIRROR, raising=False)
    monkeypatch.setattr(releases, "architecture", lambda: "amd64")
    monkeypatch.setattr(releases, "_unreachable", {})
    monkeypatch.setattr(releases, "PATIENCE_SECONDS", 1)
    for name, folder in (("PROGRAMS", "programs"), ("BIN", "bin")):
        monkeypatch.setattr(programs, name, tmp_path / "checkout" / ".stack" / folder)


@pytest.fixture
def hello() -> Iterator[Site]:
    """A site with a release of the program `hello`."""
    with site(archive()) as played:
        yield played


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "unpacked" / "hello"


def cached(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "cache" / "releases").glob("h*"))


def assert_refused(release: Release, target: Path, *words: str) -> None:
    """It is refused in one line with these words, and nothing half-done stays where programs are."""
    with pytest.raises(UnavailableError) as refused:
        releases.unpack(release, target)
    assert "\n" not in str(refused.value)
    for word in words:
        assert word in str(refused.value)
    assert not target.exists()
    assert not target.parent.exists() or list(target.parent.iterdir()) == []


def test_a_release_is_unpacked_without_its_top_folder_and_kept(hello: Site, target: Path, tmp_path: Path) -> None:
    releases.unpack(hello.release(), target)
    assert subprocess.run([target / "hello"], capture_output=True, check=True).stdout == b"hello, version 9.9\n"
    assert (target / "web" / "padding").is_file()
    assert cached(tmp_path) == [FILE]

    releases.unpack(hello.release(), target.with_name("again"))
    assert hello.requests == [f"/v9.9/{FILE}"]  # the second time from the cache


def test_a_bare_program_is_made_executable(target: Path) -> None:
    with site(SCRIPT) as played:
        releases.unpack(played.release("/hello-{architecture}"), target)
    assert subprocess.run([target / "hello"], capture_output=True, check=True).stdout == b"hello, version 9.9\n"


def test_a_wrong_checksum_is_never_unpacked(hello: Site, target: Path, tmp_path: Path) -> None:
    release = hello.release()
    hello.content = archive(SCRIPT + b"rm -rf /\n")
    assert_refused(release, target, FILE, "127.0.0.1", hashlib.sha256(hello.content).hexdigest()[:12])
    assert cached(tmp_path) == []


def test_a_damaged_file_in_the_cache_is_replaced(hello: Site, target: Path, tmp_path: Path) -> None:
    releases.unpack(hello.release(), target)
    file = tmp_path / "cache" / "releases" / FILE
    file.write_bytes(file.read_bytes()[:-1])
    releases.unpack(hello.release(), target.with_name("again"))
    assert (target.with_name("again") / "hello").read_bytes() == SCRIPT


def send_part(handler: http.server.BaseHTTPRequestHandler, content: bytes, begin: int, end: int) -> None:
    """Promise everything from `begin`, and stop at `end`."""
    handler.send_response(206 if begin else 200)
    handler.send_header("Content-Length", str(len(content) - begin))
    handler.end_headers()
    handler.wfile.write(content[begin:end])


def test_a_broken_connection_is_continued_where_it_was(hello: Site, target: Path) -> None:
    half = len(hello.content) // 2

    def cut_once(handler: http.server.BaseHTTPRequestHandler, number: int) -> bool:
        if number == 0:
            send_part(handler, hello.content, 0, half)
        return number == 0

    hello.behave = cut_once
    releases.unpack(hello.release(), target)
    assert hello.requests == [f"/v9.9/{FILE}", f"/v9.9/{FILE} bytes={half}-"]
    assert (target / "hello").read_bytes() == SCRIPT


def test_a_download_that_breaks_off_for_good_continues_next_time(hello: Site, target: Path, tmp_path: Path) -> None:
    half = len(hello.content) // 2

    def cut_then_close(handler: http.server.BaseHTTPRequestHandler, number: int) -> bool:
        if number == 0:
            send_part(handler, hello.content, 0, half)
        else:
            send_part(handler, hello.content, half, half)
        return True

    hello.behave = cut_then_close
    assert_refused(hello.release(), target, "broke off", FILE, "goes on from there")
    assert cached(tmp_path) == [f"{FILE}.part"]

    hello.behave = lambda _handler, _number: False
    releases.unpack(hello.release(), target)
    assert hello.requests[-1] == f"/v9.9/{FILE} bytes={half}-"
    assert cached(tmp_path) == [FILE]


def test_what_is_left_of_something_else_is_not_continued(hello: Site, target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "releases"
    folder.mkdir(parents=True)
    (folder / f"{FILE}.part").write_bytes(b"of another mirror")
    releases.unpack(hello.release(), target)
    assert (target / "hello").read_bytes() == SCRIPT


def test_a_server_that_knows_no_ranges_is_read_from_the_beginning(hello: Site, target: Path) -> None:
    def cut_then_whole(handler: http.server.BaseHTTPRequestHandler, number: int) -> bool:
        send_part(handler, hello.content, 0, len(hello.content) if number else 1000)
        return True

    hello.behave = cut_then_whole
    releases.unpack(hello.release(), target)
    assert (target / "hello").read_bytes() == SCRIPT


def test_a_silent_server_is_given_up(hello: Site, target: Path) -> None:
    def say_nothing(handler: http.server.BaseHTTPRequestHandler, _number: int) -> bool:
        handler.rfile.read()  # until the client goes
        return True

    hello.behave = say_nothing
    assert_refused(hello.release(), target, "127.0.0.1", "cannot be reached", "no answer for 1 s")


def test_redirects_are_followed(hello: Site, target: Path) -> None:
    def move(handler: http.server.BaseHTTPRequestHandler, _number: int) -> bool:
        if handler.path.startswith("/assets/"):
            return False
        handler.send_response(302)
        handler.send_header("Location", f"/assets/{FILE}?token=1")
        handler.end_headers()
        return True

    hello.behave = move
    releases.unpack(hello.release(), target)
    assert hello.requests == [f"/v9.9/{FILE}", f"/assets/{FILE}?token=1"]


def refusal(status: int) -> Callable[[http.server.BaseHTTPRequestHandler, int], bool]:
    """A behaviour: nothing but this status."""

    def refuse(handler: http.server.BaseHTTPRequestHandler, _number: int) -> bool:
        handler.send_error(status)
        return True

    return refuse


@pytest.mark.parametrize("status", [403, 404, 451, 503])
def test_a_site_that_says_no_is_quoted(hello: Site, target: Path, status: int) -> None:
    hello.behave = refusal(status)
    assert_refused(hello.release(), target, "127.0.0.1", f"answers {status} ", FILE)


def test_no_network_is_found_out_once(target: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        first = Release("1", f"http://{address}/one.tar.gz", {"amd64": "0" * 64}, {"one": "one"})
        assert_refused(first, target, f"{address} cannot be reached: Connection refused")
    with site(archive()) as played:
        releases._unreachable[played.url.removeprefix("http://")] = "asked before"
        assert_refused(played.release(), target, "asked before")
        assert played.requests == []


def test_a_proxy_is_used(hello: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = Release("9.9", "http://releases.invalid/hello.tar.gz", hello.release().sha256, {"hello": "hello"})
    monkeypatch.setenv("http_proxy", hello.url)
    monkeypatch.setattr("urllib.request._opener", None)  # else the environment of the first request counts
    releases.unpack(release, target)
    assert hello.requests == ["http://releases.invalid/hello.tar.gz"]


def test_a_mirror_stands_for_all_sites(hello: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    official = Release("9.9", f"https://releases.invalid/9.9/{FILE}", hello.release().sha256, {"hello": "hello"})
    monkeypatch.setenv(releases.MIRROR, f"{hello.url}/folder/")
    releases.unpack(official, target)
    assert hello.requests == [f"/folder/{FILE}"]


def test_a_full_disk_leaves_nothing(hello: Site, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a small file system takes root to mount it")
    try:
        monkeypatch.setenv("VIRTSCOPE_CACHE", str(small))
        with pytest.raises(ProgramsError, match=f"no space left for {FILE}"):
            releases.unpack(hello.release(), target)
        assert [file.name for file in (small / "releases").iterdir()] == [".lock"]

        monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
        with pytest.raises(ProgramsError, match=f"cannot unpack {FILE}: no space left"):
            releases.unpack(hello.release(), small / "hello")
        assert not (small / "hello").exists()
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_architecture_without_release_is_said(hello: Site, monkeypatch: pytest.MonkeyPatch, target: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert_refused(hello.release(), target, "no release is pinned for riscv64")


class Fallback:
    """The distribution's packages of `hello`, without a distribution."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, version: str = "1.0-1") -> None:
        self.asked: list[bool] = []  # whether an answer of before won't do
        self.together: list[str] = []  # what was to be asked for at once, the last time
        self.why_not = ""

        def find(_packages: Packages, also: Sequence[Packages], since: float) -> list[Deb]:
            self.asked.append(since > 0)
            self.together = [packages.name for packages in also]
            if self.why_not:
                raise UnavailableError(self.why_not)
            return [Deb("hello", version, f"hello_{version}_all.deb", "0" * 64)]

        def unpack(_debs: object, target: Path, _adapt: object) -> None:
            (target / "usr/bin").mkdir(parents=True)
            (target / "usr/bin/hello").write_text("#!/bin/sh\necho packaged\n")
            (target / "usr/bin/hello").chmod(0o755)

        monkeypatch.setattr(debian, "find", find)
        monkeypatch.setattr(debian, "unpack", unpack)
        monkeypatch.setattr(debian, "system", lambda: "Debian 99")


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Fallback:
    return Fallback(monkeypatch)


def suite(release: Release, name: str = "hello") -> Suite:
    return Suite(name, "Hello", release, Packages(name, ("hello",), {"hello": "usr/bin/hello"}, {"hello": "1"}))


def get(wanted: Suite) -> Got:
    programs.get(wanted)
    got = programs.got(wanted)
    assert got is not None
    return got


def said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_release_comes_before_the_package(hello: Site, packages: Fallback) -> None:
    got = get(suite(hello.release()))
    assert (got.version, got.source, got.because) == ("9.9", "official release", "")
    assert said(programs.BIN / "hello") == "hello, version 9.9"
    assert packages.asked == []


def test_without_the_release_the_package_is_taken_and_kept(hello: Site, packages: Fallback) -> None:
    wanted = suite(hello.release())
    hello.behave = refusal(404)
    got = get(wanted)
    assert (got.version, got.source) == ("1.0-1", "package hello of Debian 99")
    assert "answers 404" in got.because
    assert said(programs.BIN / "hello") == "packaged"

    assert get(wanted) == got
    assert len(hello.requests) == len(packages.asked) == 1


def test_packages_that_are_wanted_together_are_asked_for_together(hello: Site, packages: Fallback) -> None:
    hello.behave = refusal(404)
    first, second = suite(hello.release()), suite(hello.release(), "second")
    programs.get(first, second)
    assert packages.together == ["hello", "second"]
    assert packages.asked == [False, False]
    assert programs.got(first) == programs.got(second)


def test_an_update_looks_for_the_release_again(
    hello: Site, packages: Fallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = suite(hello.release())
    monkeypatch.setattr(programs, "SUITES", (wanted,))
    hello.behave = refusal(404)
    programs.get(wanted)
    programs.update()
    assert packages.asked == [False, True]  # and for newer packages

    hello.behave = lambda _handler, _number: False
    programs.update()
    assert said(programs.BIN / "hello") == "hello, version 9.9"
    assert [entry.name for entry in (programs.PROGRAMS / "hello").iterdir() if entry.is_dir()] == ["release-9.9"]


def test_a_newer_release_in_the_catalogue_replaces_the_old_one(hello: Site, packages: Fallback) -> None:
    programs.get(suite(hello.release()))
    with site(archive(b"#!/bin/sh\necho newer\n")) as newer:
        assert programs.got(suite(newer.release())) is None
        programs.get(suite(newer.release("/newer-{version}.tar.gz")))
    assert packages.asked == []


def test_a_release_that_does_not_run_here_gives_way(packages: Fallback) -> None:
    with site(archive(b"#!/lib/ld-musl-of-another-system\n")) as played:
        got = get(suite(played.release()))
    assert "hello does not run here" in got.because
    assert said(programs.BIN / "hello") == "packaged"
    assert packages.asked == [False]


def test_if_nothing_works_each_way_is_named(hello: Site, packages: Fallback) -> None:
    hello.behave = refusal(403)
    packages.why_not = "Fedora Linux 42 has no apt-get"
    with pytest.raises(ProgramsError) as refused:
        programs.get(suite(hello.release()))
    message = str(refused.value)
    assert "\n" not in message
    for part in (
        "cannot get Hello",
        "answers 403",
        "Fedora Linux 42 has no apt-get",
        releases.MIRROR,
        "make compose-up",
    ):
        assert part in message
    assert not programs.BIN.exists()
    assert [entry.name for entry in (programs.PROGRAMS / "hello").iterdir()] == [".lock"]


def test_noexec_is_said_before_anything_is_downloaded(
    hello: Site, packages: Fallback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounted = tmp_path / "noexec"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(mounted)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("a file system without programs takes root to mount it")
    try:
        monkeypatch.setattr(programs, "PROGRAMS", mounted / "programs")
        with pytest.raises(ProgramsError, match="mounted noexec"):
            programs.get(suite(hello.release()))
    finally:
        subprocess.run(["umount", mounted], check=True)
    assert hello.requests == []
    assert packages.asked == []


def test_the_catalogue_pins_every_release_for_both_architectures() -> None:
    machines = {name: machine for machine, name in releases.ARCHITECTURES.items()}
    for release in [*(suite.release for suite in catalogue.SUITES), catalogue.PYTHON]:
        assert set(release.sha256) == {"amd64", "arm64"}
        for digest in release.sha256.values():
            assert len(bytes.fromhex(digest)) == 32
        for architecture in release.sha256:
            url = releases.url(release, {}, architecture)
            assert url.startswith("https://")
            assert release.version in url
            assert architecture in url or machines[architecture] in url


def test_a_release_for_another_architecture_is_that_one(hello: Site, target: Path) -> None:
    """As for the bundle of another machine than this."""
    [other] = set(releases.ARCHITECTURES.values()) - {releases.architecture()}
    digest = hello.release().sha256[releases.architecture()]
    release = Release("9.9", f"{hello.url}/{{machine}}-{FILE}", {releases.architecture(): "0" * 64, other: digest}, {})
    with pytest.raises(UnavailableError):
        releases.unpack(release, target)
    releases.unpack(release, target, other)
    assert target.is_dir()
