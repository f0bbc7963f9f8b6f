"""`python -m advise` on a Prometheus whose records come from queues, so that what will be is known."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from advise import AdviceError
from advise.serving import Found, Shown
from tests.advise.world import Site, World
from tests.report.recordings import backfilled
from tests.support.endpoints import Group
from tests.support.prometheus import ROOT, Prometheus
from tests.support.waiting import wait_for

SHOP = Site("shop", requests=10, work=0.03, rest=0.005)
BLOG = Site("blog", requests=20, work=0.015, rest=0.002, allowed=0.08)
API = Site("api", requests=20, work=0.005, memory=2e9)
WORLD = World([SHOP, BLOG, API], memory_free={"a": 4e9, "b": 1.5e9}, varies=0.1)
BEFORE = {"shop": "a", "blog": "b", "api": "b"}
NOW = {"shop": "a", "blog": "a", "api": "b"}
HOURS = 26
MOVED = 12 * 3600  # seconds ago


@pytest.fixture(scope="module")
def end() -> int:
    return int(time.time()) // 60 * 60 - 60


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, end: int) -> Iterator[Prometheus]:
    samples = WORLD.samples(end, HOURS * 3600, [(0, BEFORE), (end - MOVED, NOW)])
    with backfilled(tmp_path_factory.mktemp("world"), *samples) as prometheus:
        yield prometheus


def ask(prometheus: Prometheus, *question: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advise", *question, "--prometheus", prometheus.url]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def answer(prometheus: Prometheus, *question: str, status: int = 0) -> dict[str, Any]:
    found = ask(prometheus, *question, "--json")
    assert found.returncode == status, found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


def predicted(candidate: dict[str, Any]) -> dict[str, float]:
    return {each["app"]: each["seconds"] for each in candidate["apps"]}


def test_where_a_guest_may_go_and_what_each_application_will_take(prometheus: Prometheus) -> None:
    found = answer(prometheus, "where", "blog-web")
    assert (found["withheld"], found["advised"]) == (None, "b")
    there, here = found["candidates"]
    assert (there["host"], there["limit"], here["host"], here["stay"]) == ("b", None, "a", True)
    came = {site.name: WORLD.response(site, {**NOW, "blog": "b"}) for site in WORLD.sites}
    assert predicted(there) == pytest.approx(came, rel=0.06)
    for each in there["apps"]:
        assert each["low_seconds"] < came[each["app"]] < each["high_seconds"]
    assert {each["app"]: each["host"] for each in there["apps"]} == {"shop": "a", "blog": "b", "api": "b"}
    assert there["commands"] == ["qm migrate 101 b --online"]
    assert there["copied_bytes"] == 1e9


def test_what_has_no_room_and_what_would_break_an_objective(prometheus: Prometheus) -> None:
    found = answer(prometheus, "where", "api-web")
    assert found["advised"] == "b"
    here, there = found["candidates"]
    assert (here["stay"], there["limit"]) == (True, "objective of shop")
    assert predicted(there)["shop"] == pytest.approx(WORLD.response(SHOP, {**NOW, "api": "a"}), rel=0.1)
    together = answer(prometheus, "where", "shop-web", "blog-web")
    assert {each["host"]: each["limit"] for each in together["candidates"]} == {"a": None, "b": "memory"}


def test_as_text_for_people(prometheus: Prometheus) -> None:
    found = ask(prometheus, "where", "blog-web")
    about, _head, *rows = found.stdout.splitlines()
    assert about.startswith("blog-web on a, 0.3")
    assert rows[0].split()[:3] == ["b", "yes", "api"]
    assert rows[-2:] == ["Move to b: 1000 MB to copy, 9 s at 1 Gbit/s.", "  qm migrate 101 b --online"]


def test_what_had_better_leave_a_host(prometheus: Prometheus) -> None:
    found = answer(prometheus, "relieve", "a")
    gains = [each["candidates"][0]["gain"] for each in found["changes"]]
    assert {each["about"].split()[0] for each in found["changes"]} == {"shop-web", "blog-web"}
    assert gains == sorted(gains, reverse=True)


def test_maintenance_moves_one_guest_after_the_other_and_says_what_has_no_place(prometheus: Prometheus) -> None:
    found = answer(prometheus, "maintenance", "a", status=1)
    first, second = found["changes"]
    assert (first["advised"], second["advised"]) == ("b", None)
    assert second["candidates"][0]["limit"] == "memory"


def test_a_cap(prometheus: Prometheus) -> None:
    found = answer(prometheus, "cap", "api-web", "0.5")
    assert found["candidates"][0]["commands"] == ["qm set 102 --cpulimit 0.5"]
    tight = answer(prometheus, "cap", "blog-web", "0.35", status=1)
    assert tight["candidates"][0]["limit"] == "objective of blog"


def test_a_move_in_the_past_is_predicted_again_and_compared(prometheus: Prometheus) -> None:
    found = answer(prometheus, "check")
    assert (found["predictions"], found["inside_ratio"]) == (3, 1.0)
    assert found["median_error_ratio"] < 0.15
    blog = next(each for each in found["checks"] if each["app"] == "blog")
    assert [(each["kind"], each["guest"], each["of"], each["to"]) for each in blog["changes"]] == [
        ("move", "blog-web", "b", "a")
    ]
    assert blog["seconds"] == pytest.approx(WORLD.response(BLOG, NOW), rel=0.2)


def test_of_an_earlier_time(prometheus: Prometheus, end: int) -> None:
    found = answer(prometheus, "where", "blog-web", "--at", str(end - MOVED - 600))
    assert next(each["host"] for each in found["candidates"] if each["stay"]) == "b"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (["where", "nobody"], "error: no guest nobody is recorded in the past minutes"),
        (["relieve", "z"], "error: no host z is recorded in the past minutes"),
        (["cap", "blog-web", "0"], "error: a cap is at least 0.01 CPUs"),
        (["cap", "blog-web", "inf"], "error: a cap is at least 0.01 CPUs"),
        (["where", "shop-web", "api-web"], "error: these guests are on several hosts: ask about those of one"),
        (["where", "blog-web", "--past", "5q"], "usage: python3 -m advise where"),
        (["where", "blog-web", "--past", "1m"], "usage: python3 -m advise where"),
        (["serve", "--listen", "127.0.0.1:99999"], "usage: python3 -m advise serve"),
        (["where", "blog-web", "--at", "1000000000"], "error: no host:cpu_usage:rate before 1000000000"),
    ],
)
def test_what_can_t_be_asked(prometheus: Prometheus, question: list[str], said: str) -> None:
    found = ask(prometheus, *question)
    assert (found.returncode, found.stderr.startswith(said)) == (2, True), found.stderr


def test_without_a_prometheus() -> None:
    command = [sys.executable, "-m", "advise", "where", "blog-web", "--prometheus", "http://127.0.0.1:1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.endswith(": Connection refused (`make up` starts a Prometheus, --prometheus names another)\n")


def test_a_cap_and_a_start_in_the_past_are_predicted_again_and_compared(tmp_path: Path) -> None:
    end = int(time.time()) // 60 * 60 - 60
    alone, both = {"shop": "a"}, {"shop": "a", "blog": "a"}
    capped = end - 8 * 3600
    world = World([SHOP, BLOG], varies=0.1, caps=[(capped, {"shop": 0.5})])
    moves = [(0, alone), (end - 4 * 3600, both)]
    with backfilled(tmp_path, *world.samples(end, 14 * 3600, moves)) as prometheus:
        cap, start = answer(prometheus, "check")["checks"]
    assert [(each["changes"][0]["kind"], each["changes"][0]["guest"], each["app"]) for each in (cap, start)] == [
        ("cap", "shop-web", "shop"),
        ("start", "blog-web", "shop"),
    ]
    assert cap["seconds"] == pytest.approx(world.response(SHOP, alone, cap=0.5), rel=0.15)
    assert start["seconds"] == pytest.approx(world.response(SHOP, both, cap=0.5), rel=0.15)
    assert cap["inside"]
    assert start["inside"]


def test_who_isn_t_to_blame_stays_and_guests_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    """An application whose objective is broken by what no host can change, and another one's guest with its name."""
    end = int(time.time()) // 60 * 60 - 60
    shop = Site("shop", requests=5, work=0.02, rest=0.2, allowed=0.15, vserver="web")
    world = World([shop, Site("small", requests=5, work=0.01), Site("blog", requests=10, work=0.01, vserver="web")])
    on = {"shop": "a", "small": "a", "blog": "b"}
    with backfilled(tmp_path, *world.samples(end, 3 * 3600, [(0, on)])) as prometheus:
        assert answer(prometheus, "relieve", "a")["changes"] == []
        found = answer(prometheus, "where", "web", "--on", "a")
        assert found["advised"] == "a"
        assert [sorted(predicted(each)) for each in found["candidates"]] == [
            ["shop", "small"],
            ["blog", "shop", "small"],
        ]
        assert answer(prometheus, "where", "web", "--on", "b")["candidates"][0]["stay"]


def test_right_after_a_move_the_next_one_is_predicted_with_what_is_on_each_host_now(tmp_path: Path) -> None:
    """Most of the present of 15 minutes is from before the move."""
    end = int(time.time()) // 60 * 60 - 60
    world, after = World([SHOP, BLOG, API], varies=0.1), {"shop": "b", "blog": "a", "api": "b"}
    moves = [(0, BEFORE), (end - 12 * 3600, NOW), (end - 5 * 60, after)]
    with backfilled(tmp_path, *world.samples(end, HOURS * 3600, moves)) as prometheus:
        there, here = answer(prometheus, "where", "api-web")["candidates"]
    assert (there["host"], here["stay"]) == ("a", True)
    moved = {site.name: world.response(site, {**after, "api": "a"}) for site in world.sites}
    assert predicted(there) == pytest.approx(moved, rel=0.1)
    stays = {site.name: world.response(site, after) for site in (SHOP, API)}
    assert predicted(here) == pytest.approx(stays, rel=0.1)


def test_of_an_application_whose_requests_nothing_counts_nothing_is_advised(tmp_path: Path) -> None:
    end = int(time.time()) // 60 * 60 - 60
    world = World([SHOP, API], uncounted=frozenset({"shop"}))
    with backfilled(tmp_path, *world.samples(end, 3 * 3600, [(0, {"shop": "a", "api": "b"})])) as prometheus:
        found = answer(prometheus, "where", "shop-web", status=3)
        assert found["withheld"] == "shop on a: nothing counts its requests"
        [withheld] = answer(prometheus, "relieve", "a", status=3)["changes"]
        assert (withheld["withheld"], withheld["advised"]) == (found["withheld"], None)
        [there] = [each for each in answer(prometheus, "where", "api-web")["candidates"] if not each["stay"]]
        assert there["unknown"][0] == "response of shop on a: nothing counts its requests"


def test_of_an_application_whose_requests_all_fail_nothing_is_advised(tmp_path: Path) -> None:
    end = int(time.time()) // 60 * 60 - 60
    world = World([SHOP, API], failing=frozenset({"shop"}))
    with backfilled(tmp_path, *world.samples(end, 3 * 3600, [(0, {"shop": "a", "api": "b"})])) as prometheus:
        assert answer(prometheus, "where", "shop-web", status=3)["withheld"] == "shop on a: all of its requests failed"


def test_a_host_without_others_of_its_platform_can_t_be_emptied(tmp_path: Path) -> None:
    end = int(time.time()) // 60 * 60 - 60
    world = World([API], hosts=["a"])
    with backfilled(tmp_path, *world.samples(end, 3 * 3600, [(0, {"api": "a"})])) as prometheus:
        [change] = answer(prometheus, "maintenance", "a", status=1)["changes"]
        assert (change["advised"], change["candidates"]) == (None, [])
        stays = ask(prometheus, "where", "api-web")
        assert stays.stdout.splitlines()[-1] == "Stay on a: nowhere else fits and makes requests a tenth faster."


def test_advice_is_withheld_while_data_are_short_and_says_what_it_lacks_of_others(tmp_path: Path) -> None:
    """An application with a request a minute."""
    end = int(time.time()) // 60 * 60 - 60
    world = World([Site("shop", requests=1 / 60, work=0.03), API])
    with backfilled(tmp_path, *world.samples(end, 3 * 3600, [(0, {"shop": "a", "api": "b"})])) as prometheus:
        found = answer(prometheus, "where", "shop-web", status=3)
        assert "shop on a: no interval of" in found["withheld"]
        assert (found["advised"], [each["commands"] for each in found["candidates"]]) == (None, [[], []])
        [there] = [each for each in answer(prometheus, "where", "api-web")["candidates"] if not each["stay"]]
        response, memory = there["unknown"]
        assert response.startswith("response of shop on a: no interval of")
        assert memory == "free memory of a"
        assert "\nNot recorded, for a: response of shop on a: " in ask(prometheus, "where", "api-web").stdout


def test_advice_is_withheld_while_predictions_are_wrong(tmp_path: Path) -> None:
    """An application whose requests take longer on another host for reasons that aren't recorded."""
    end = int(time.time()) // 60 * 60 - 60
    world = World([SHOP, API], slow={"b": 0.5})
    swaps = [{"shop": "a", "api": "b"}, {"shop": "b", "api": "a"}]
    moves = [(0, swaps[0]), *((end - (14 - number) * 3600, swaps[number % 2]) for number in range(1, 14))]
    with backfilled(tmp_path, *world.samples(end, 15 * 3600, moves)) as prometheus:
        found = answer(prometheus, "where", "shop-web", status=3)
        assert "predictions" in found["withheld"]
        text = ask(prometheus, "where", "shop-web")
        assert text.stdout.splitlines()[-1].startswith("No advice: of the last ")
        assert "Move" not in text.stdout
        relieved = ask(prometheus, "relieve", "a")
        assert (relieved.returncode, relieved.stdout.splitlines()[-1]) == (3, text.stdout.splitlines()[-1])


def test_the_page_and_its_metrics_which_become_a_record(prometheus: Prometheus, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advise", "serve", "--listen", "127.0.0.1:0", "--prometheus", prometheus.url]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            metrics = wait_for(
                lambda: requests.get(f"{url}metrics", timeout=30).text, until=lambda text: "advise_up 1" in text
            )
            page = requests.get(url, timeout=30).text
            missing = requests.get(f"{url}nothing", timeout=30).status_code
            asked = {
                of: requests.get(url, timeout=30, params={"question": what, "of": of, "number": number}).text
                for what, of, number in (
                    ("cap", "api-web", "0.5"),
                    ("maintenance", "a", ""),
                    ("where", "<b>", ""),
                    ("vcpus", "shop-web", "many"),
                )
            }
            group = Group(targets=[urlsplit(url).netloc], labels={"host": "monitor1"})
            with Prometheus(tmp_path, {"advise": [group]}) as scraping:
                [inside] = scraping.wait_for("monitor:advice_inside:ratio", 60)
                scraping.wait_for('monitor:cpu_usage:rate{job="advise"}', 60)
        finally:
            process.terminate()
            process.communicate(timeout=30)
    labels = {"host": "monitor1", "platform": "base", "job": "advise"}
    assert (inside["metric"], inside["value"][1]) == ({"__name__": "monitor:advice_inside:ratio", **labels}, "1")
    assert 'advise_predictions{inside="true"} 3.0' in metrics
    assert "advise_withheld 0.0" in metrics
    assert "<h2>Host a</h2>" in page
    assert "<h3>blog-web on a, " in page
    assert "qm migrate 101 b --online" in page
    assert "100 % of 3 observed responses" in page
    assert (missing, process.returncode) == (404, 0)
    assert "<h2>api-web on b, 0.10 CPUs, 2000 MB, with a cap of 0.5 CPUs</h2>" in asked["api-web"]
    assert "qm set 102 --cpulimit 0.5" in asked["api-web"]
    assert "no: memory" in asked["a"]
    assert "<h2>error: no guest &lt;b&gt; is recorded in the past minutes</h2>" in asked["<b>"]
    assert "<h2>error: &#39;many&#39; is no number</h2>" in asked["shop-web"]


def test_the_page_without_a_prometheus_says_so() -> None:
    shown = Shown()

    def fail() -> Found:
        raise AdviceError("http://<b>: Connection refused")

    shown.update(fail)
    assert "http://&lt;b&gt;: Connection refused" in shown.page({}).decode()
    samples = [line for line in shown.metrics().decode().splitlines() if line.startswith("advise_")]
    assert samples == ["advise_up 0.0"], "nothing is known of a calibration"


def test_a_look_that_fails_for_an_unknown_reason_ends_the_page() -> None:
    program = """
from advise.serving import Shown, serve
def fail():
    raise ValueError("nobody foresaw this")
serve(("127.0.0.1", 0), Shown(), fail, every=60)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith("ValueError: nobody foresaw this\n")


def test_an_unforeseen_failure_is_not_taken_for_an_answer() -> None:
    program = """
import runpy
from advise import command
def fail():
    raise ValueError("nobody foresaw this")
command.main = fail
runpy.run_module("advise", run_name="__main__")
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 70
    assert ended.stderr.endswith("ValueError: nobody foresaw this\n")
