"""What changes are predicted to do, for applications whose past is that of a queue."""

from dataclasses import replace

import numpy as np
import pytest

from advise import AdviceError
from advise.model import Past
from advise.options import CANDIDATES, Advisor, Option
from advise.queueing import waiting
from advise.reading import Place
from advise.seen import IDLE, App, Guest, Host, Seen

A, B = Place("a", "kvm"), Place("b", "kvm")
WORK = 0.01


def guest(
    name: str,
    place: Place,
    cpu: float,
    *,
    overhead: float = 0.0,
    vcpus: float | None = None,
    disk_own: float | None = None,
) -> Guest:
    return Guest(name, place, cpu, overhead, memory=1e9, vcpus=vcpus, apps=(name,), webs=(name,), disk_own=disk_own)


def app(of: Guest, used: float, allowed: float | None = 0.1) -> App:
    """With a guest of the same name, on a host of one CPU of which so much is used."""
    rates = np.linspace(0.1, 0.8, 50)
    waits = WORK * waiting(rates, 1.0)
    past = Past(WORK + waits, np.full(50, WORK), waits)
    requests = of.cpu / WORK
    return App(of.name, of.place, requests, WORK / (1 - used), allowed, (of,), (requests,), past)


def seen(*guests: Guest, allowed: float | None = 0.1, memory_free: float | None = None) -> Seen:
    """Two hosts with one CPU each."""
    used = {place: sum(each.cpu for each in guests if each.place == place) for place in (A, B)}
    made = {place: Host(place, 1.0, its, memory_free=memory_free) for place, its in used.items()}
    for each in guests:
        if each.disk_own is not None:
            busy = (made[each.place].disk_busy or 0.0) + each.disk_own
            made[each.place] = replace(made[each.place], disk_busy=busy)
    return Seen(made, guests, [app(each, used[each.place], allowed) for each in guests])


def predicted(option: Option) -> dict[str, float]:
    return {each.app.name: each.predicted.median for each in option.outcomes}


def test_a_guest_s_and_its_neighbours_response_on_each_host() -> None:
    shop, blog, api = guest("shop", A, 0.4), guest("blog", A, 0.3), guest("api", B, 0.1)
    moved, stays = Advisor(seen(shop, blog, api)).where([blog])
    assert (moved.place, moved.stays, moved.limit, stays.place, stays.stays) == (B, False, None, A, True)
    assert predicted(moved) == pytest.approx({"shop": WORK / 0.6, "blog": WORK / 0.6, "api": WORK / 0.6}, rel=0.05)
    assert predicted(stays) == pytest.approx({"shop": WORK / 0.3, "blog": WORK / 0.3}, rel=0.1)
    assert {each.app.name: each.place for each in moved.outcomes} == {"shop": A, "blog": B, "api": B}
    assert moved.worth
    # Requests per second times what each gains.
    gain = 40 * (WORK / 0.3 - WORK / 0.6) + 30 * (WORK / 0.3 - WORK / 0.6) + 10 * (WORK / 0.9 - WORK / 0.6)
    assert moved.gain == pytest.approx(gain, rel=0.2)


def test_overhead_goes_with_the_guest() -> None:
    shop, api = guest("shop", A, 0.3, overhead=0.15), guest("api", B, 0.2)
    moved = Advisor(seen(shop, api)).option([shop], [replace(shop, place=B)], B)
    assert predicted(moved)["api"] == pytest.approx(WORK / (1 - 0.65), rel=0.1)


def test_what_speaks_against_a_host() -> None:
    shop, api = guest("shop", A, 0.3), guest("api", B, 0.3)

    def limit(of: Seen) -> str | None:
        return Advisor(of).option([of.guests[0]], [replace(of.guests[0], place=B)], B).limit

    assert limit(seen(shop, api)) is None
    assert limit(seen(shop, api, memory_free=0.9e9)) == "memory"
    assert limit(seen(shop, api, memory_free=1.1e9)) is None
    assert limit(seen(shop, guest("api", B, 0.7))) == "cpu"
    assert limit(seen(guest("shop", A, 0.3, disk_own=0.5), guest("api", B, 0.3, disk_own=0.5))) == "disk"
    assert limit(seen(shop, guest("api", B, 0.6))) == "objective of api, shop"
    assert limit(seen(shop, guest("api", B, 0.6), allowed=None)) is None


def test_what_is_not_recorded_is_said() -> None:
    shop, api = guest("shop", A, 0.3), guest("api", B, 0.3)
    of = seen(shop, api)
    silent = {("shop", A): "no interval", ("mail", A): "no interval", ("wiki", B): "no tier", ("idle", B): IDLE}
    advisor = Advisor(replace(of, unclear=silent))
    moved, stays = advisor.option([shop], [replace(shop, place=B)], B), advisor.option([shop], [shop], A)
    assert advisor.unknown(stays) == ["response of mail on a: no interval"]
    assert advisor.unknown(moved) == [
        "response of mail on a: no interval",
        "response of wiki on b: no tier",
        "free memory of b",
    ]
    assert Advisor(seen(shop, api, memory_free=1e9)).unknown(moved) == []
    unsized = replace(shop, memory=None)
    assert Advisor(seen(unsized, memory_free=1e9)).unknown(advisor.option([shop], [replace(unsized, place=B)], B)) == [
        "memory of shop"
    ]


def test_neighbours_at_the_disk_make_requests_wait() -> None:
    shop, blog = guest("shop", A, 0.1, disk_own=0.2), guest("blog", B, 0.1, disk_own=0.5)
    moved = Advisor(seen(shop, blog)).option([shop], [replace(shop, place=B)], B)
    # 0.2 s/s of disk time for 10 requests/s, each second of which waits 0.5 / (1 - 0.5) s.
    assert predicted(moved)["shop"] == pytest.approx(WORK / 0.8 + 0.02, rel=0.1)


def test_a_cap_and_vcpus() -> None:
    shop = guest("shop", A, 0.1)
    advisor = Advisor(seen(shop))
    capped = advisor.option([shop], [replace(shop, cap=0.2)], A)
    assert predicted(capped)["shop"] == pytest.approx(WORK + 0.05, rel=0.1)
    assert advisor.option([shop], [replace(shop, cap=0.1)], A).limit == "objective of shop"
    [large] = [replace(host, cpus=8.0) for host in advisor.seen.hosts.values() if host.place == A]
    busy = guest("shop", A, 0.8, vcpus=1)
    one = Advisor(Seen({A: replace(large, used=0.8)}, [busy], [app(busy, 0.8)]))
    two = one.option([busy], [replace(busy, vcpus=2)], A)
    assert predicted(two)["shop"] < 0.4 * two.outcomes[0].now.median


def test_after_a_change_the_next_one_is_predicted_with_it() -> None:
    shop, blog, api = (guest(name, A, 0.3) for name in ("shop", "blog", "api"))
    advisor = Advisor(seen(shop, blog, api, memory_free=1.5e9))
    first = advisor.option([shop], [replace(shop, place=B)], B)
    assert first.limit is None
    then = advisor.after(first)
    assert then.seen.hosts[B].used == pytest.approx(0.3)
    second = then.option([blog], [replace(blog, place=B)], B)
    assert second.limit == "memory"
    assert predicted(second) == pytest.approx({"shop": WORK / 0.4, "blog": WORK / 0.4, "api": WORK / 0.7}, rel=0.1)


def test_which_guest_is_meant() -> None:
    advisor = Advisor(seen(guest("shop", A, 0.1), guest("shop", B, 0.1)))
    assert advisor.find("shop", "b").place == B
    with pytest.raises(AdviceError, match="shop is on a, b: say which, such as by --on a"):
        advisor.find("shop")
    with pytest.raises(AdviceError, match="no guest blog is recorded on a"):
        advisor.find("blog", "a")


def test_which_guest_of_two_platforms_of_a_host_is_meant() -> None:
    in_container = Place("a", "cgroup")
    of = seen(guest("shop", A, 0.1))
    advisor = Advisor(replace(of, guests=[*of.guests, Guest("shop", in_container, 0.1)]))
    with pytest.raises(AdviceError, match="shop is on a/kvm, a/cgroup: say which, such as by --on a/kvm"):
        advisor.find("shop", "a")
    assert advisor.find("shop", "a/cgroup").place == in_container


def test_a_move_that_repairs_an_objective_comes_before_staying_even_if_requests_take_longer_in_all() -> None:
    shop, batch, api = guest("shop", A, 0.02), guest("batch", A, 0.86), guest("api", B, 0.7)
    of = seen(shop, batch, api, allowed=None)
    apps = [replace(each, allowed=0.05) if each.name == "shop" else each for each in of.apps if each.name != "batch"]
    moved, stays = Advisor(replace(of, apps=apps)).where([shop])
    assert predicted(moved)["shop"] < 0.05 < predicted(stays)["shop"]
    assert (moved.place, moved.gain < 0, moved.worth, stays.worth) == (B, True, True, False)


def test_a_move_does_not_repair_what_the_model_finds_unbroken_without_it() -> None:
    shop, other, api = guest("shop", A, 0.3), guest("other", A, 0.01), guest("api", B, 0.1)
    of = seen(shop, other, api)
    slower = [replace(each, response=0.03, allowed=0.02) if each.name == "shop" else each for each in of.apps]
    moved = Advisor(replace(of, apps=slower)).option([other], [replace(other, place=B)], B)
    assert predicted(moved)["shop"] < 0.02
    assert not moved.worth


def test_a_guest_that_would_start_takes_cpu_from_its_neighbours() -> None:
    shop = guest("shop", A, 0.3)
    started = Advisor(seen(shop)).option([], [], A, [Guest("new", A, 0.4)])
    assert predicted(started) == pytest.approx({"shop": WORK / 0.3}, rel=0.1)


def test_a_cap_leaves_its_neighbours_what_the_guest_no_longer_uses() -> None:
    batch, shop = guest("batch", A, 0.7), guest("shop", A, 0.2)
    advisor = Advisor(seen(batch, shop, allowed=None))
    capped = advisor.option([batch], [batch.limited(0.2, None)], A)
    assert predicted(capped)["shop"] == pytest.approx(WORK / 0.6, rel=0.1)
    assert np.isinf(predicted(capped)["batch"])
    fewer = advisor.option([batch], [batch.limited(None, 1)], A)
    assert predicted(fewer)["shop"] == pytest.approx(WORK / 0.1, rel=0.1)


def test_without_a_steady_state_no_objective_holds() -> None:
    shop = guest("shop", A, 0.3)
    advisor = Advisor(seen(shop, allowed=float("inf")))
    assert advisor.option([shop], [shop.limited(0.2, None)], A).limit == "objective of shop"


def test_a_host_of_two_platforms_is_one_machine() -> None:
    shop, api = guest("shop", A, 0.3), guest("api", B, 0.3)
    of = seen(shop, api, memory_free=1.5e9)
    b_too = Place("b", "cgroup")
    contained = replace(guest("mail", b_too, 0.2), memory=1e9)
    hosts = {**of.hosts, b_too: replace(of.hosts[B], place=b_too)}
    whole = replace(of, hosts=hosts, guests=[*of.guests, contained], apps=[*of.apps, app(contained, 0.5)])
    moved = Advisor(whole).option([shop], [replace(shop, place=B)], B)
    assert predicted(moved)["mail"] > 1.5 * moved.outcomes[-1].now.median
    then = Advisor(whole).after(moved)
    assert then.seen.hosts[b_too].used == pytest.approx(0.6)
    more = replace(guest("more", A, 0.1), place=b_too)
    assert then.option([more], [more], b_too).limit is None
    assert then.option([guest("more", A, 0.1)], [replace(guest("more", A, 0.1), place=b_too)], b_too).limit == "memory"


def test_only_applications_for_which_a_guest_works_keep_it_from_being_advised_on() -> None:
    shop, db = guest("shop", A, 0.3), replace(guest("db", B, 0.1), apps=("shop",), webs=())
    silent = {("shop", Place("c", "kvm")): "no interval", ("shop", B): IDLE, ("blog", A): "no interval"}
    advisor = Advisor(replace(seen(shop, db), unclear=silent))
    assert advisor.unclear([shop]) == []
    elsewhere = {("shop", A): "no interval"}
    works = Advisor(replace(seen(shop, db), apps=[], unclear=elsewhere))
    assert works.unclear([shop]) == works.unclear([db]) == ["shop on a: no interval"]


def test_a_web_tier_stays_where_it_is_if_its_database_moves() -> None:
    shop, db = guest("shop", A, 0.3), replace(guest("db", A, 0.1), apps=("shop",), webs=())
    of = seen(shop, db)
    both = replace(of.apps[0], guests=(shop, db), served=(30.0, 30.0))
    moved = Advisor(replace(of, apps=[both])).option([db], [replace(db, place=B)], B)
    assert [each.place for each in moved.outcomes] == [A]


def test_of_many_hosts_those_with_the_most_free_cpus_are_looked_at() -> None:
    shop = guest("shop", A, 0.3)
    of = seen(shop, memory_free=2e9)
    many = {Place(f"h{number}", "kvm"): Host(Place(f"h{number}", "kvm"), 1.0, 0.02 * number) for number in range(40)}
    full = {Place("full", "kvm"): Host(Place("full", "kvm"), 4.0, 0.1, memory_free=1e6)}
    found = Advisor(replace(of, hosts={A: of.hosts[A], **many, **full})).where([shop])
    assert len(found) == CANDIDATES
    assert {each.place.host for each in found} == {"a", *(f"h{number}" for number in range(CANDIDATES - 1))}
