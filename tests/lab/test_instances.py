"""Real instances of the auction site, as seen by visitors, sensors and the rest of the machine."""

import re
import socket
import subprocess
from pathlib import Path

import pytest
import requests

from lab import LabError
from lab.cgroups import Cgroup, Hierarchies, mounted
from lab.servers.instance import TIERS, Instance
from lab.site import data
from tests.lab.conftest import UNLIMITED, get, name, new_instance
from tests.support.privileges import NOBODY
from tests.support.waiting import wait_for

PAGES = {
    "/": "Welcome",
    "/categories": "Categories",
    "/category?id=3&page=2": "Books",
    "/search?q[]=1": "Search",
    f"/item?id={data.ITEM_COUNT}": None,
    "/bids?item=7": None,
    "/search?q=Brass+clock": "Search for Brass clock",
    f"/user?id={data.USERS}": None,
}
NOT_THERE = (
    "/nothing",
    "/item?id=0",
    "/item?id=one",
    "/item",
    f"/category?id={data.CATEGORY_COUNT + 1}",
    "/user?id=-1",
)

pytestmark = pytest.mark.system

# The combined format plus response time; lab/servers writes what telegraf/sensors/apache_access_log.conf expects.
LOG_LINE = re.compile(r'127\.0\.0\.1 - - \[[^]]+\] "GET (\S+) HTTP/1\.1" (\d{3}) \d+ "-" "-" (\d+)')


def logged(instance: Instance) -> list[tuple[str, int, int]]:
    """Path, status and microseconds of each line of the access log."""
    matches = [LOG_LINE.fullmatch(line) for line in instance.web_log.read_text().splitlines()]
    assert all(matches)
    return [(match[1], int(match[2]), int(match[3])) for match in matches if match]


def test_visitors_get_complete_pages_working_links_and_what_they_search(instance: Instance) -> None:
    links = set()
    for path, heading in PAGES.items():
        answer = get(instance, path)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8"), path
        assert answer.text.startswith("<!DOCTYPE html>"), path
        assert answer.text.rstrip().endswith("</html>"), path
        assert heading is None or f"<h1>{heading}</h1>" in answer.text, path
        links |= set(re.findall(r'href="([^"]+)"', answer.text))
    assert {link.partition("?")[0] for link in links} >= {"/item", "/bids", "/category", "/user"}
    for link in sorted(links)[::10]:
        assert get(instance, link.replace("&amp;", "&")).status_code == 200, link
    for word in data.search_words()[::12]:
        titles = re.findall(r'<td><a href="/item\?id=\d+">([^<]+)</a>', get(instance, f"/search?q={word}").text)
        assert titles, word
        assert all(word in title.lower() for title in titles), word
    assert "Nothing was found" in get(instance, "/search?q=unobtainium").text
    page = get(instance, "/search?q=%3Cscript%3Ealert(1)%3C/script%3E%27%22").text
    assert "<script" not in page
    assert "Search for &lt;script&gt;" in page
    assert {path: get(instance, path).status_code for path in NOT_THERE} == dict.fromkeys(NOT_THERE, 404)


def test_log_contains_only_visits(instance: Instance) -> None:
    assert get(instance, "/health").text == "ok\n"
    assert "BusyWorkers: " in get(instance, "/server-status?auto").text
    get(instance, "/item?id=6")
    get(instance, "/absent")
    wanted = {("/item?id=6", 200), ("/absent", 404)}
    # Lines are written after the answers by one process each, so not in request order.
    wait_for(lambda: wanted <= {visit[:2] for visit in logged(instance)})
    assert not [visit for visit in logged(instance) if visit[0].startswith(("/health", "/server-status"))]
    assert all(0 < microseconds < 30_000_000 for _, _, microseconds in logged(instance))


def test_servers_run_as_nobody_in_their_cgroups_on_loopback(instance: Instance, hierarchies: Hierarchies) -> None:
    for tier in TIERS:
        processes = Cgroup(f"{instance.name}-{tier}", hierarchies).processes()
        assert processes
        for pid in processes:
            status = Path("/proc", str(pid), "status").read_text()
            assert re.search(rf"^Uid:\t{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}$", status, re.MULTILINE)
            assert re.search(r"^CapPrm:\t0+$", status, re.MULTILINE)
            assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
            groups = Path("/proc", str(pid), "cgroup").read_text().splitlines()
            paths = [line.split(":", 2)[2] for line in groups]
            assert paths.count(f"/virtscope/{instance.name}-{tier}") >= len(hierarchies.roots)
    listening = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = {int(address.split(":")[1], 16): address.split(":")[0] for address, _, state in listening if state == "0A"}
    assert {ports[port] for port in instance.ports.values()} == {"0100007F"}


def test_servers_see_only_their_own_files(instance: Instance, hierarchies: Hierarchies) -> None:
    for tier in TIERS:
        pid = Cgroup(f"{instance.name}-{tier}", hierarchies).processes()[0]
        seen = Path("/proc", str(pid), "root")
        assert {path.name for path in (seen / "srv").iterdir()} == {"config", "site", "state"}
        assert not list((seen / "home").glob("*"))
        assert not (seen / "proc" / "self").exists()
        assert {path.name for path in (seen / "dev").iterdir()} == {"null", "urandom"}
        for folder in ("usr", "srv/config", "srv/site"):
            written = subprocess.run(["touch", seen / folder / "x"], capture_output=True, text=True, check=False)
            assert "Read-only file system" in written.stderr


def test_a_dead_database_is_an_error_at_once_and_the_other_instance_is_unaffected(
    pair: tuple[Instance, Instance],
) -> None:
    broken, neighbour = pair
    get(broken, "/item?id=1")
    broken.kill("db")
    page = get(broken, "/item?id=1")
    assert page.status_code == 503
    assert "database does not answer" in page.text
    assert get(broken, "/health").status_code == 503
    wait_for(lambda: ("/item?id=1", 503) in [visit[:2] for visit in logged(broken)])
    assert get(neighbour, "/item?id=1").status_code == 200
    broken.restart("db")
    assert [get(broken, "/item?id=1").status_code for _ in range(20)] == [200] * 20
    broken.kill("web")
    with pytest.raises(requests.ConnectionError):
        get(broken, "/")
    broken.restart("web")
    assert get(broken, "/item?id=1").status_code == 200


def test_a_name_or_port_in_use_is_refused(instance: Instance, tmp_path: Path) -> None:
    with pytest.raises(LabError, match=rf"{instance.name}-web is in use by another run"):
        new_instance("a", instance.folder.parent).start(UNLIMITED)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        blocked = new_instance("c", tmp_path)
        blocked.ports["db"] = taken.getsockname()[1]
        with pytest.raises(LabError, match=rf"{blocked.name}'s db tier has ended .*\n(.*\n)*.*Address already in use"):
            blocked.start(UNLIMITED)
    assert get(instance, "/health").status_code == 200
    assert_nothing_left(name("c"), tmp_path / "c")
    (tmp_path / "d").write_text("a file where its folder should be")
    with pytest.raises(LabError, match=f"{name('d')} can't be started: .*{tmp_path}/d"):
        new_instance("d", tmp_path).start(UNLIMITED)
    assert_nothing_left(name("d"), tmp_path / "d" / "web")


def assert_nothing_left(instance: str, folder: Path) -> None:
    cgroups = [root / "virtscope" / f"{instance}-{tier}" for root in mounted().roots for tier in TIERS]
    wait_for(lambda: not any(path.exists() for path in (folder, *cgroups)) and not processes_of(folder))


def processes_of(folder: Path) -> list[str]:
    """Processes that have a folder in their command line."""
    found = subprocess.run(["pgrep", "--full", str(folder)], capture_output=True, text=True, check=False)
    return found.stdout.split()
