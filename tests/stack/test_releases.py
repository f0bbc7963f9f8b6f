"""Official releases, from a server that plays the sites. Needs no network."""

import hashlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy import programs
from deploy.places import ProgramsError, UnavailableError
from deploy.programs import Got, catalogue, debian, releases
from deploy.programs.catalogue import Packages, Release, Suite
from deploy.programs.debian import Deb
from tests.stack.release_site import SCRIPT, Site, archive, site
from tests.support.mounts import tmpfs
from tests.support.ports import free_port
from tests.support.refusals import assert_one_line, refusal

FILE = "hello-9.9.linux-amd64.tar.gz"
SAYS = "hello, version 9.9"


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An amd64 machine with its own cache and checkout, which has not contacted any site yet."""
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(releases.MIRROR, raising=False)
    monkeypatch.setattr(releases, "architecture", lambda: "amd64")
    monkeypatch.setattr(releases, "_unreachable", {})
    monkeypatch.setattr(releases, "TIMEOUT_SECONDS", 1)
    for name, folder in (("PROGRAMS", "programs"), ("BIN", "bin")):
        monkeypatch.setattr(programs, name, tmp_path / "checkout" / ".stack" / folder)


@pytest.fixture
def hello() -> Iterator[Site]:
    with site(archive()) as played:
        yield played


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "unpacked" / "hello"


def cached(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "cache" / "releases").glob("h*"))


def said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()


def assert_refused(release: Release, target: Path, *words: str) -> None:
    """It is refused with one line containing these words, and leaves no incomplete program."""
    assert_one_line(refusal(UnavailableError, releases.unpack, release, target), *words)
    assert not target.parent.exists() or list(target.parent.iterdir()) == []


def test_a_release_is_unpacked_without_its_top_folder_and_kept(hello: Site, target: Path, tmp_path: Path) -> None:
    releases.unpack(hello.release(), target)
    assert said(target / "hello") == SAYS
    assert (target / "web" / "padding").is_file()
    releases.unpack(hello.release(), target.with_name("again"))
    assert hello.requests == [f"/v9.9/{FILE}"]  # the second time from the cache

    file = tmp_path / "cache" / "releases" / FILE
    file.write_bytes(file.read_bytes()[:-1])  # a damaged file is replaced
    releases.unpack(hello.release(), target.with_name("third"))
    assert said(target.with_name("third") / "hello") == SAYS

    hello.content = SCRIPT  # a bare program is made executable
    releases.unpack(hello.release("/hello-{architecture}"), target.with_name("bare"))
    assert said(target.with_name("bare") / "hello") == SAYS


def test_a_wrong_checksum_is_never_unpacked(hello: Site, target: Path, tmp_path: Path) -> None:
    release = hello.release()
    hello.content = archive(SCRIPT + b"rm -rf /\n")
    assert_refused(release, target, FILE, "127.0.0.1", hashlib.sha256(hello.content).hexdigest()[:12])
    assert cached(tmp_path) == []


def test_sites_that_refuse_break_off_or_are_silent_are_quoted(hello: Site, target: Path, tmp_path: Path) -> None:
    for status in (403, 503):
        hello.refuses = status
        assert_refused(hello.release(), target, "127.0.0.1", f"answers {status} ", FILE)
    hello.refuses, hello.breaks_off_after = 0, 1 << 19
    assert_refused(hello.release(), target, "127.0.0.1", "broke off", FILE)
    assert cached(tmp_path) == []
    hello.is_silent = True
    assert_refused(hello.release(), target, "127.0.0.1", "cannot be reached", "no answer for 1 s")


def test_no_network_is_found_out_once(hello: Site, target: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    first = Release("1", f"http://{address}/one.tar.gz", {"amd64": "0" * 64}, {"one": "one"})
    assert_refused(first, target, f"{address} cannot be reached: Connection refused")
    assert address in releases._unreachable
    releases._unreachable[hello.url.removeprefix("http://")] = "asked before"
    assert_refused(hello.release(), target, "asked before")
    assert hello.requests == []


def test_a_proxy_redirects_and_a_mirror_are_followed(
    hello: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello.moved_to = f"/assets/{FILE}?token=1"
    official = Release("9.9", f"http://releases.invalid/9.9/{FILE}", hello.release().sha256, {"hello": "hello"})
    with monkeypatch.context() as patch:
        patch.setenv("http_proxy", hello.url)
        patch.setattr("urllib.request._opener", None)  # otherwise urllib keeps the first request's environment
        releases.unpack(official, target)
    monkeypatch.setenv(releases.MIRROR, f"{hello.url}/folder/")
    monkeypatch.setattr("urllib.request._opener", None)
    monkeypatch.setenv("VIRTSCOPE_CACHE", str(target.with_name("cache")))
    releases.unpack(official, target.with_name("again"))
    official_site = "http://releases.invalid"
    assert hello.requests == [
        f"{official_site}/9.9/{FILE}",
        f"{official_site}/assets/{FILE}?token=1",
        f"/folder/{FILE}",
    ]


@pytest.mark.system
def test_a_full_disk_leaves_nothing(hello: Site, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tmpfs(tmp_path / "small", "size=256k") as small:
        monkeypatch.setenv("VIRTSCOPE_CACHE", str(small))
        with pytest.raises(ProgramsError, match=f"no space left for {FILE}"):
            releases.unpack(hello.release(), target)
        assert [file.name for file in (small / "releases").iterdir()] == [".lock"]

        monkeypatch.setenv("VIRTSCOPE_CACHE", str(tmp_path / "cache"))
        with pytest.raises(ProgramsError, match=f"cannot unpack {FILE}: no space left"):
            releases.unpack(hello.release(), small / "hello")
        assert not (small / "hello").exists()


def test_an_architecture_without_releases_is_named(hello: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(UnavailableError, match="no release is pinned for riscv64"):
        releases.unpack(hello.release(), target)


def test_the_catalogue_pins_every_release_for_both_architectures() -> None:
    machines = {name: machine for machine, name in releases.ARCHITECTURES.items()}
    for release in [*(suite.release for suite in catalogue.SUITES), catalogue.PYTHON]:
        assert {name: len(bytes.fromhex(pin)) for name, pin in release.sha256.items()} == {"amd64": 32, "arm64": 32}
        for architecture in release.sha256:
            url = releases.url(release, {}, architecture)
            assert url.startswith("https://")
            assert release.version in url
            assert architecture in url or machines[architecture] in url


class Fallback:
    """Fake distribution packages of `hello`."""

    def __init__(self) -> None:
        self.asked: list[bool] = []  # whether up-to-date lists were requested
        self.why_not = ""

    def find(self, _packages: Packages, since: float) -> list[Deb]:
        self.asked.append(since > 0)
        if self.why_not:
            raise UnavailableError(self.why_not)
        return [Deb("hello", "1.0-1", "hello_1.0-1_all.deb", "0" * 64)]

    def unpack(self, _debs: object, target: Path, _adapt: object) -> None:
        (target / "usr/bin").mkdir(parents=True)
        (target / "usr/bin/hello").write_text("#!/bin/sh\necho packaged\n")
        (target / "usr/bin/hello").chmod(0o755)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Fallback:
    fallback = Fallback()
    monkeypatch.setattr(debian, "find", fallback.find)
    monkeypatch.setattr(debian, "unpack", fallback.unpack)
    monkeypatch.setattr(debian, "system", lambda: "Debian 99")
    return fallback


def suite(release: Release, name: str = "hello") -> Suite:
    return Suite(name, "Hello", release, Packages(name, ("hello",), {"hello": "usr/bin/hello"}, {"hello": "1"}))


def get(wanted: Suite) -> Got:
    programs.get(wanted)
    got = programs.got(wanted)
    assert got is not None
    return got


def test_the_release_comes_before_the_package_and_a_newer_one_replaces_it(hello: Site, packages: Fallback) -> None:
    got = get(suite(hello.release()))
    assert (got.version, got.source, got.because) == ("9.9", "official release", "")
    assert said(programs.BIN / "hello") == SAYS
    with site(archive(b"#!/bin/sh\necho newer\n")) as newer:
        wanted = suite(replace(newer.release(), version="9.10"))
        assert programs.got(wanted) is None
        assert get(wanted).version == "9.10"
    assert said(programs.BIN / "hello") == "newer"
    assert packages.asked == []


def test_without_the_release_the_package_is_taken_and_kept_until_an_update(
    hello: Site, packages: Fallback, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = suite(hello.release())
    hello.refuses = 404
    got = get(wanted)
    assert (got.version, got.source) == ("1.0-1", "package hello of Debian 99")
    assert "answers 404" in got.because
    assert said(programs.BIN / "hello") == "packaged"
    assert get(wanted) == got
    assert (len(hello.requests), packages.asked) == (1, [False])

    monkeypatch.setattr(programs, "SUITES", (wanted,))
    programs.update()
    assert packages.asked[1:] == [True]  # also for newer packages
    hello.refuses = 0
    programs.update()
    assert said(programs.BIN / "hello") == SAYS
    assert [entry.name for entry in (programs.PROGRAMS / "hello").iterdir() if entry.is_dir()] == ["release-9.9"]


def test_a_release_that_does_not_run_here_is_replaced_by_the_package(packages: Fallback) -> None:
    with site(archive(b"#!/lib/ld-musl-of-another-system\n")) as played:
        wanted = [suite(played.release(), name) for name in ("hello", "second")]
        programs.get(*wanted)
    found = programs.got(wanted[1])
    assert found is not None
    assert "hello does not run here" in found.because
    assert (said(programs.BIN / "hello"), packages.asked) == ("packaged", [False, False])


def test_if_nothing_works_each_way_is_named(hello: Site, packages: Fallback) -> None:
    hello.refuses = 403
    packages.why_not = "Fedora Linux 42 has no apt-get"
    refused = refusal(ProgramsError, programs.get, suite(hello.release()))
    assert_one_line(refused, "cannot get Hello", "answers 403", packages.why_not, releases.MIRROR, "make compose-up")
    assert not programs.BIN.exists()
    assert [entry.name for entry in (programs.PROGRAMS / "hello").iterdir()] == [".lock"]


@pytest.mark.system
def test_noexec_is_said_before_anything_is_downloaded(
    hello: Site, packages: Fallback, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with tmpfs(tmp_path / "noexec", "noexec") as mounted:
        monkeypatch.setattr(programs, "PROGRAMS", mounted / "programs")
        with pytest.raises(ProgramsError, match="mounted noexec"):
            programs.get(suite(hello.release()))
    assert (hello.requests, packages.asked) == ([], [])
