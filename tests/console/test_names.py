"""Names and parameters are untrusted: they are shown verbatim, never interpreted as HTML or PromQL."""

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.console.fleet import alert, application, evaluated, guest, host, sample
from tests.console.served import RELEASES, Release, Served, served_by

NAMES = [
    'quo"te',
    "back\\slash\\",
    "<script>document.title='taken'</script>",
    "\"><img src=x onerror=alert(1)><b a='",
    '"} or up{job=~".+',
    "%!d(string=x) %s {{ . }} ${1}",
    "javascript:alert(1)//../..?a=b&c=d#e",
    "größer, 主机, \u202ertl, 😀",
    "`tick` 'single' \t tab",
    "x" * 200,
]
PARAMETERS = [
    *map(quote, NAMES),
    *("%00", "%0A%0D", "%ff%fe", "%C0%80", "%22%7D%29%20or%20vector%281%29%20%23", "x&host=y&host=z"),
    quote("€" * 3000),
]


@pytest.fixture(scope="module", params=RELEASES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Each name is used for a host, a guest, an application on it, and an alert about all three."""
    release: Release = request.param
    samples = [*evaluated(), *host("plain", "xen", 0.1)]
    for name in NAMES:
        samples += [*host(name, "xen", 0.1), *guest(name, name, cpu=0.5), *application(name, name)]
        samples += alert("Starved", "warning", host=name, platform="xen", vserver=name, app=name, objective="mean")
        of = {"host": name, "platform": "xen", "app": name}
        samples.append(sample("app:objective_cause:info", {**of, "objective": "mean", "cause": "neighbour"}, 1))
        samples.append(sample("app:neighbour:ratio", {**of, "resource": "cpu", "by": name}, 0.5))
    with served_by(tmp_path_factory.mktemp(release), samples, release) as prometheus:
        yield prometheus


def test_every_name_is_shown_as_it_is(served: Served) -> None:
    page = served.page()
    shown = {name.strip() for name in NAMES}
    assert set(page.sections["Alerts"].column("Virtual server")) == shown
    assert set(page.sections["Alerts"].column("Likely cause")) == {f"neighbour: {name} 50 %" for name in NAMES}
    assert set(page.sections["Virtual servers"].column("Virtual server")) == shown
    assert set(page.sections["Applications"].column("Application")) == shown
    assert {cell.removesuffix(" xen") for cell in page.sections["Hosts"].column("Host")} == {*shown, "plain"}


def test_no_name_adds_markup(served: Served) -> None:
    usual = served.page({"host": "plain"})
    for query in ({}, *({kind: name} for name in NAMES for kind in ("host", "app"))):
        page = served.page(query)
        assert page.tags - usual.tags <= {"p", "footer", "form", "label", "input", "button"}
        assert page.attributes - usual.attributes <= {"name", "required"}
        assert all(link.startswith(("?", "/behind/a-proxy/user/")) for link in page.links)


def test_a_link_leads_to_the_page_of_that_name_and_no_other(served: Served) -> None:
    links = {link for link in served.page().links if link.startswith("?host=")}
    pages = {page.heading: page for page in map(served.page, (link.removeprefix("?") for link in links))}
    for name in NAMES:
        page = pages[f"virtscope / host {name}"]
        assert page.sections["Host"].column("Host") == [f"{name} xen".strip()]
        assert page.sections["Virtual servers"].column("Virtual server") == [name.strip()]
        of_application = served.page({"app": name})
        assert set(of_application.sections["Applications"].column("Application")) == {name.strip()}
        assert [row[1] for row in of_application.sections["Responses"].rows] == [f"{name} xen".strip()]


def test_a_parameter_selects_what_has_this_name_or_nothing(served: Served) -> None:
    for parameter, value in itertools.product(("host", "app"), PARAMETERS):
        page = served.page(f"{parameter}={value}")
        rows = page.sections["Applications"].rows
        assert len({row[1] for row in rows}) <= 1, (parameter, value)
        if not rows:
            assert page.sections["Virtual servers"].tables == [], (parameter, value)
            assert page.sections["Alerts"].tables == [], (parameter, value)
