"""Mails and chat messages that the real Alertmanager sends with the shipped templates.

The receivers are from the example in alerts/alertmanager.yml, with this test's addresses.
"""

import email.message
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

import pytest

from tests.golden_pages import assert_golden
from tests.rules.test_alertmanager import example_receivers
from tests.support import Alertmanager, Mailbox, Webhook

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "messages"
# Debian's release, and that of compose.yaml, which the first run builds.
RELEASES = ["alertmanager", pytest.param("alertmanager034", marks=[pytest.mark.system, pytest.mark.timeout(1200)])]

Alert: TypeAlias = dict[str, Any]

# Sent by mail to the ticket receiver and by chat to the page receiver; each test uses a different host.
RUNBOOKS = "http://prometheus.example.org:9090/user/runbooks"
ALLOWED = "objective: at most 1%"


def alert(name: str, severity: str, minute: int, summary: str, *, host: str, **others: Any) -> Alert:
    """An alert that started at 8 o'clock plus this many minutes; `others` are labels, or the annotations."""
    annotations = {"summary": summary, "runbook_url": f"{RUNBOOKS}/{name}.md", **others.pop("annotations", {})}
    labels = {"alertname": name, "severity": severity, "host": host, **others}
    return {"labels": labels, "annotations": annotations, "startsAt": f"2026-03-02T08:{minute:02}:00Z"}


def objective(host: str, app: str, cause: str, severity: str = "critical", **labels: str) -> Alert:
    """An alert about an objective, with the wording of alerts/generated."""
    name = "ObjectiveBurnsFast" if severity == "critical" else "ObjectiveBurnsSlowly"
    annotations = {
        "description": "It last met its objective at 08:11 UTC. 62% is left of its 30-day error budget.",
        "cause": cause,
        "dashboard": f"d/virtscope-applications?var-host={host}&var-platform=xen&var-app={app}",
    }
    summary = f"{app} on host {host} answers late: 31% of its answers took longer than 0.3 s; {ALLOWED}."
    about = {"platform": "xen", "app": app, "objective": "latency", **labels}
    return alert(name, severity, 12, summary, host=host, annotations=annotations, **about)


def overhead(host: str) -> Alert:
    annotations = {"description": f"Domain-0 uses 61% of all CPU used on host {host} (1.2 CPUs of 2)."}
    summary = f"Host {host}: overhead is 61% of all CPU used."
    return alert("HostOverheadHigh", "warning", 5, summary, host=host, platform="xen", annotations=annotations)


def starved(host: str, vserver: str, severity: str = "warning") -> Alert:
    summary = f"{vserver} on host {host} is waiting for a CPU 70.4% of the time it is runnable."
    return alert("VirtualServerStarved", severity, 7, summary, host=host, vserver=vserver)


def over(alert: Alert) -> Alert:
    return {**alert, "endsAt": "2026-03-02T08:37:00Z"}


def is_about(host: str, text: str) -> bool:
    return re.search(rf"\b[Hh]ost {host}\b", text) is not None


class Messages(NamedTuple):
    """Both ends: alerts for Alertmanager, and the messages that it sends."""

    alertmanager: Alertmanager
    mailbox: Mailbox
    chat: Webhook

    def mail(self, host: str, *alerts: Alert, containing: str = "") -> str:
        """The first mail about a host that contains this text, after Alertmanager gets the alerts.

        Alertmanager doesn't wait for a group's other alerts if one is old: the first mail may have only some of them.
        """
        self.alertmanager.tell(*alerts)

        def wanted(mail: email.message.EmailMessage) -> bool:
            return is_about(host, readable(mail)) and containing in readable(mail)

        return readable(self.mailbox.wait_for(wanted, 30))

    def post(self, host: str, *alerts: Alert, title: str = "") -> dict[str, Any]:
        """The only attachment of the first such chat message."""
        self.alertmanager.tell(*alerts)

        def wanted(message: dict[str, Any]) -> bool:
            (attachment,) = message["attachments"]
            return is_about(host, attachment["title"]) and title in attachment["title"]

        message = self.chat.wait_for(wanted, 30)
        assert message["channel"] == "#operators"
        (attachment,) = message["attachments"]
        return {key: attachment[key] for key in ("title", "text", "fallback", "color")}


def readable(mail: email.message.EmailMessage) -> str:
    """Subject and text of a mail with a single text/plain part."""
    (part,) = [part for part in mail.walk() if not part.is_multipart()]
    assert part.get_content_type() == "text/plain"
    return f"Subject: {mail['Subject']}\n\n{part.get_content()}".replace("\r\n", "\n")


@pytest.fixture(scope="module", params=RELEASES)
def messages(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Messages]:
    folder = tmp_path_factory.mktemp("messages")
    with Mailbox() as mailbox, Webhook() as chat, pytest.MonkeyPatch.context() as environment:
        environment.setenv("TZ", "UTC")
        page, ticket, watchdog, nobody = example_receivers()
        (folder / "slack-url").write_text(chat.url)
        page["slack_configs"][0]["api_url_file"] = str(folder / "slack-url")
        ticket["email_configs"][0] |= {"smarthost": mailbox.address, "require_tls": False}
        watchdog["webhook_configs"][0]["url"] = chat.url
        # After a message there are two seconds to send the next alerts before they are notified.
        intervals = {"group_wait": "2s", "group_interval": "2s"}
        receivers = [page, ticket, watchdog, nobody]
        with Alertmanager(folder, receivers, program=request.param, **intervals) as alertmanager:
            yield Messages(alertmanager, mailbox, chat)


def assert_message(name: str, message: str) -> None:
    assert_golden(GOLDEN / f"{name}.txt", message)


def test_mails(messages: Messages) -> None:
    """A few alerts of a host are shown in full, many in a line each, with each cause and runbook once."""
    burns = objective("one", "shop", "neighbour", "warning")
    few = [objective("few", "shop", "hypervisor", "warning"), overhead("few")]
    many = [objective("many", f"shop-{number:02}", "neighbour", "warning") for number in range(1, 13)]
    kinds = [objective("kinds", app, cause, "warning") for app, cause in (("blog", "self"), ("shop", "unknown"))]
    kinds += [objective("kinds", "shop", "unknown", "warning", objective="availability"), overhead("kinds")]
    # A container is named by the 12 digits that Docker shows, out of 64; no part of another name is lost.
    names = [f"docker-{'0123456789ab' + 52 * 'c'}.scope", 'kunde "müller" <b>&', "web 1", "web 2"]
    named = [*(starved("names", name) for name in names), overhead("names")]
    own: Alert = {"labels": {"alertname": "DiskFull", "host": "own"}, "startsAt": "2026-03-02T08:12:00Z"}
    for golden, containing, alerts in (
        ("one-firing", "", [burns]),
        ("one-resolved", "RESOLVED", [over(burns)]),
        ("few-firing", "2 alerts", few),
        ("few-one-resolved", "Resolved at", [few[0], over(few[1])]),
        ("many-firing", "12 alerts", many),
        ("many-resolved", "RESOLVED", [*map(over, many)]),
        ("kinds-firing", "4 alerts", kinds),
        ("names-firing", "5 alerts", named),
        ("own-rule", "", [own]),  # a user's, without our annotations
    ):
        assert_message(golden, messages.mail(alerts[0]["labels"]["host"], *alerts, containing=containing))


def test_a_chat_message_about_one_alert_and_that_it_is_over(messages: Messages) -> None:
    burns = objective("chat", "shop", "self")
    title = burns["annotations"]["summary"]
    firing, resolved = messages.post("chat", burns), messages.post("chat", over(burns), title="RESOLVED")
    assert_message("chat-firing", firing.pop("text"))
    assert_message("chat-resolved", resolved.pop("text"))
    assert firing == {"title": f"[PAGE] {title}", "fallback": f"[PAGE] {title}", "color": "danger"}
    assert (resolved["title"], resolved["color"]) == (f"[RESOLVED] after 25m: {title}", "good")
    annotations = {"description": "For two minutes, nothing on host down has answered Prometheus."}
    summary = "Host down is down or unreachable: nothing on it answers."
    down = alert("HostDown", "critical", 12, summary, host="down", annotations=annotations)
    assert_message("host-down", messages.post("down", down)["text"])


HOSTILE = [
    *("<!channel>", "<http://192.0.2.1/|What to do>", "[What to do](http://192.0.2.1/)", "@all", "ä@here"),
    *("http://192.0.2.1/login", "web\nWhat to do: http://192.0.2.1/", "\u202egnp.nioj\x1b[2J"),
]
"""What guests and applications can call themselves."""
OWN_LINK = rf"(?m)^(?:What to do: )?{RUNBOOKS}/\w+\.md$|^Dashboard: http://127\.0\.0\.1:3000/d/\S+$"


def assert_harmless(text: str) -> None:
    """No mentions, no links except ours, no forged lines and no text direction changes."""
    others = re.sub(OWN_LINK, "", text)
    assert re.findall(r"<[!@#h]|\|[^>]*>|\]\(|\B@\w|://", others) == []
    assert all(line.isprintable() for line in text.split("\n"))
    assert not re.search(r"(?m)^What to do: http://192", text)


def test_what_guests_call_themselves_is_no_mention_and_no_link(messages: Messages) -> None:
    alerts = [starved("hostile", name, "critical") for name in HOSTILE]
    post = messages.post("hostile", *alerts, title=f"{len(HOSTILE)} alerts")
    for part in ("title", "text", "fallback"):
        assert_harmless(post[part])
    assert "\u2039!channel\u203a on host hostile is waiting" in post["text"]


def test_what_an_application_calls_itself_is_none_either(messages: Messages) -> None:
    names = {f"app-{number}": name for number, name in enumerate([*HOSTILE, "user@1000.service"])}
    for host, name in names.items():
        burns = objective(host, name, "self")
        burns["annotations"]["description"] += f" {name} is {name}."
        burns["annotations"]["dashboard"] = f"d/virtscope-applications?var-app={quote(name)}"
        messages.alertmanager.tell(burns)
    for host, name in names.items():
        post = messages.post(host)
        for part in ("title", "text", "fallback"):
            assert_harmless(post[part])
        assert (name in post["title"]) == (name == "user@1000.service"), name


def test_a_changed_cause_is_no_message_and_the_next_one_has_it(messages: Messages) -> None:
    before = objective("changed", "shop", "unknown", "warning")
    assert "Most likely cause: unknown." in messages.mail("changed", before)
    after = objective("changed", "shop", "load", "warning")
    messages.alertmanager.tell(after)
    messages.mail("after-changed", overhead("after-changed"))  # one interval later: group_wait is equally long
    messages.mail("after-changed", over(overhead("after-changed")), containing="RESOLVED")
    assert_message("changed-cause", messages.mail("changed", over(after), containing="Most likely cause: its load"))
    assert len([mail for mail in messages.mailbox.mails if is_about("changed", readable(mail))]) == 2
