"""The report's content."""

from __future__ import annotations

from lab.measurements import METRIC
from lab.report.document import Asked, Document, Part, incomplete
from lab.report.measurements import Recording, facts
from lab.report.network import tables
from lab.report.network.comparison import Results
from lab.report.network.study import load
from lab.report.network.verdict import verdict
from lab.report.tables import Table, time

BYTE = "a byte"


def write_up(recording: Recording, prometheus: str) -> Document:
    """The content of a run's report; `prometheus` is the address of the data's source."""
    study, results, run = load(), Results(recording.measurements), recording.run
    at = f"the whole run, {time(run.start)} to {time(run.end)}"

    def part(key: str, title: str, text: str, table: Table, said: str = "") -> Part | None:
        asked = (Asked(at, (recording.asked[METRIC],)),)
        return Part(key, title, text, None, "", table, said, asked) if table.rows else None

    found = [
        part(
            "paths",
            "What each path costs",
            "Each path beside the first, everything else alike. A byte's cost ratio is the ratio of CPU time or of an "
            "event, divided by that of throughput.",
            tables.compared(results.paths, results, BYTE),
            study.said["cost"],
        ),
        _published(tables.published(study)),
        part(
            "offloads",
            "Without segmentation offloads",
            "TSO, GSO and GRO off on all devices of the path, beside on: how much of a path's cheapness is that few "
            "large packets take it.",
            tables.compared(results.offloads, results, BYTE),
        ),
        part(
            "sizes",
            "Small messages",
            "Each write of the sender is so many bytes, without Nagle's delay; beside the largest.",
            tables.compared(results.sizes, results, BYTE),
        ),
        part(
            "requests",
            "What a request costs over each path",
            "Requests for a static file at a constant rate, whether answers come or not, over each path beside the "
            "first. CPU time is that of both ends: what the client computes is in it on every path, which brings "
            "ratios nearer to 1.",
            tables.compared(results.requests, results, "a request"),
            study.said["web"],
        ),
        part(
            "loads",
            "A web server's load",
            "How long an answer took is counted from when its request was due, not from when it was sent.",
            tables.requests(results),
        ),
    ]
    return Document(
        title=f"Run {run.name}: scenario {run.scenario}",
        verdict=(*verdict(results, study), *incomplete(recording.finished_steps, recording.planned_steps)),
        facts=tuple(facts(recording, prometheus)),
        parts=(
            *(one for one in found if one),
            _run(recording, at),
            _differences(),
        ),
        overview=None,
        steps=tables.configurations(results),
        remarks=tuple(
            (name, "runs on emulated hardware: what was measured there shows that it works, and no more")
            for name in dict.fromkeys(one.path for one in results.configurations if one.name in results.emulated)
        ),
        study=study,
        method="network.txt",
    )


def _published(table: Table) -> Part:
    text = "Of its receiver, as it prints them."
    return Part("published", "The study's ratios", text, None, "", table, "", ())


def _run(recording: Recording, at: str) -> Part:
    of_run = tuple(query for metric, query in recording.asked.items() if metric != METRIC)
    text = "Where the facts at the top of this page come from."
    return Part("run", "Machine and plan", text, None, "", None, "", (Asked(at, of_run),))


def _differences() -> Part:
    rows = (
        (
            "guests and the driver domain of Xen",
            "loopback, a veth pair and a bridge of the machine's own kernel; guests if the scenario lists some",
        ),
        (
            "guests and driver domain are counted together",
            "only what this machine counts: all CPU time of KVM guests on it, of Xen guests only the driver domain's",
        ),
        ("gigabit interfaces, the other end on another machine", "both ends on this machine, and both are in the cost"),
        ("sending and receiving are each one end's", "both directions count both ends: they differ by who connects"),
        ("1,500 bytes a packet", "the same MTU on each path, but with offloads packets are put together before it"),
        (
            "events of one profile each",
            "instructions and cycles together where the machine counts them, else CPU seconds",
        ),
        ("misses of the L2 cache and the TLBs", "not counted here"),
        ("a web server's peak throughput", "two static files, at rates that the scenario gives"),
    )
    text = "Read the study's numbers as shapes, not as targets."
    return Part(
        "differences", "What differs from the study", text, None, "", Table(("The study", "Here"), rows), "", ()
    )
