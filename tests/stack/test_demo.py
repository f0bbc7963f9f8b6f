"""`make demo` as its users see it."""

from __future__ import annotations

import re

import pytest
import requests

from tests.stack.conftest import Checkout, eventually


@pytest.fixture(scope="module")
def played(checkout: Checkout) -> Checkout:
    """The checkout with the demo running in it, and what the stack had recorded before."""
    checkout.make("down")
    demo = checkout.make("demo")
    assert demo.returncode == 0, demo.stdout
    assert "All data is simulated" in demo.stdout
    assert checkout.url("PROMETHEUS_PORT") in demo.stdout
    return checkout


def test_demo_has_a_day_of_history_and_goes_on(played: Checkout) -> None:
    hosts = {"demo-xen", "demo-kvm", "demo-openvz", "demo-base"}
    day_ago = played.query("app:response_seconds:mean offset 24h")
    assert {series["metric"]["host"] for series in day_ago} == hosts
    assert eventually(lambda: {series["metric"]["host"] for series in played.query("up == 1")} == hosts)


def test_the_page_of_all_hosts_shows_the_demo_and_says_so(played: Checkout) -> None:
    page = requests.get(played.url("PROMETHEUS_PORT", "/consoles/index.html"), timeout=10)
    assert page.status_code == 200
    assert "DEMO, not live" in page.text
    assert '<a href="?host=demo-xen">' in page.text


def test_status_shows_the_demo(played: Checkout) -> None:
    assert eventually(lambda: played.make("status").returncode == 0), played.make("status").stdout
    status = played.make("status")
    assert re.search(r"^demo-sensors +running", status.stdout, re.MULTILINE)
    assert "alertmanager" not in status.stdout


def test_up_takes_the_demo_s_place_with_data_of_its_own_and_offers_it(played: Checkout) -> None:
    up = played.make("up")
    assert up.returncode == 0, up.stdout
    if "as platform base" in up.stdout:
        assert "make demo" in up.stdout.splitlines()[-1]
    assert played.query('{host=~"demo-.*"}') == []
    assert "demo-sensors" not in played.make("status").stdout
    refused = played.make("demo")
    assert refused.returncode != 0
    assert "make down first" in refused.stdout
    assert eventually(lambda: played.make("status").returncode == 0), played.make("status").stdout
