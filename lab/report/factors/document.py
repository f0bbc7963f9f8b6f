"""The report's content."""

from __future__ import annotations

from lab.measurements import METRIC
from lab.report.document import Asked, Document, Part, incomplete
from lab.report.factors import panels, tables
from lab.report.factors.comparisons import Results
from lab.report.factors.study import FactorsStudy, load
from lab.report.factors.verdict import verdict
from lab.report.measurements import Recording, facts
from lab.report.tables import Table, time

ONE_CPU = "A chart needs virtual servers on more than one CPU; the table has the numbers."
ONE_LEVEL = "No overcommitment was measured together with x = 1."
NOTHING = "Nothing was measured together with what it is compared with."


def write_up(recording: Recording, prometheus: str) -> Document:
    """The content of a run's report; `prometheus` is the address of the data's source."""
    study = load()
    results = Results(recording.measurements)
    return Document(
        title=f"Run {recording.run.name}: scenario {recording.run.scenario}",
        verdict=(*verdict(results, study), *incomplete(recording.finished_steps, recording.planned_steps)),
        facts=tuple(facts(recording, prometheus)),
        parts=(*_parts(recording, results, study), _differences()) if results.comparisons else (),
        overview=None,
        steps=tables.environments(recording.measurements),
        remarks=tuple(
            (one.what, "runs on emulated hardware: what was measured there shows that it works, and no more")
            for one in {one.what: one for one in results.comparisons if one.emulated}.values()
        ),
        study=study,
        method="factors.txt",
    )


def _peers(recording: Recording, results: Results) -> str:
    """Where the network's other ends run if all of the machine's CPUs are the virtual servers'."""
    if recording.info.get("cpus") != str(results.cpus):
        return ""
    return (
        " Of network it is more here: the other ends run on the same CPUs, as the virtual servers have all that there "
        "are. Take fewer `cpus`."
    )


def _parts(recording: Recording, results: Results, study: FactorsStudy) -> list[Part]:
    def part(
        key: str, title: str, text: str, table: Table, *, figure: str | None = None, absent: str = ""
    ) -> Part | None:
        run = recording.run
        asked = Asked(f"the whole run, {time(run.start)} to {time(run.end)}", (recording.asked[METRIC],))
        why = "" if figure else absent
        if not table.rows:
            return None
        return Part(key, title, text, figure, why, table, study.said.get(key, ""), (asked,))

    found = [
        part(
            "tree",
            "What each factor costs",
            "The relative overhead by factor, in the order of the study's tree: what lacks to the performance that "
            "there should be, as a share of it. Below 0 there is more. Of affinity and a spare core it is what is lost "
            "without them, so their gain.",
            tables.tree(results, study),
            figure=panels.tree(results, "tree", "What each factor costs"),
            absent=NOTHING,
        ),
        part(
            "virtualisation",
            "Virtualisation",
            "The same benchmark outside of all cgroups and in one, alone on the same CPU: (native - virtualised) / "
            "native. A cgroup has the machine's own kernel, memory and network, so little is to be found.",
            tables.virtualisation(results, study),
        ),
        part(
            "servers",
            "Number of virtual servers",
            "What each virtual server loses to others while there is a CPU for each: (one - many) / one. What is "
            f"shared beside CPUs shows here: caches, memory, the disk, the network.{_peers(recording, results)}",
            tables.servers(results),
        ),
        part(
            "overcommit",
            "Overcommitment",
            "x times as many busy virtual servers as CPUs. Each should have 1/x of what it has at x = 1; the deviation "
            "is relative to that.",
            tables.overcommit(results),
            figure=panels.overcommit(results, "overcommit", "Performance of each virtual server against 1/x"),
            absent=ONE_LEVEL,
        ),
        part(
            "affinity",
            "Affinity and a spare core",
            "Gain by pinning: (pinned - free) / pinned. Loss: (one - many) / one, and how many points of it pinning "
            "avoids. A spare core: what pinned virtual servers gain if one CPU is left to the host.",
            tables.affinity(results, study),
            figure=panels.affinity(results, "affinity", "Performance of each virtual server, free and pinned"),
            absent=ONE_CPU,
        ),
        part(
            "shares",
            "Weights and caps",
            "Two virtual servers compete for one CPU by their weights; one alone has a cap. What they have of the "
            "performance of one alone on that CPU, beside what they should.",
            tables.shares(results),
        ),
    ]
    return [*(one for one in found if one is not None), _run(recording)]


def _run(recording: Recording) -> Part:
    of_run = tuple(query for metric, query in recording.asked.items() if metric != METRIC)
    text = "Where the facts at the top of this page come from."
    return Part("run", "Machine and plan", text, None, "", None, "", (Asked("the whole run", of_run),))


def _differences() -> Part:
    return Part(
        "differences",
        "What differs from the study",
        "Read the study's numbers as shapes, not as targets.",
        None,
        "",
        Table(
            ("The study", "Here"),
            (
                (
                    "guests of XenServer 5.5, each with a kernel of its own",
                    "cgroups, and guests where the scenario has any",
                ),
                (
                    "Passmark's CPU and memory marks, SPEC CPU2006",
                    "sysbench's prime numbers, and writing 64 MiB blocks",
                ),
                ("no disk benchmark is printed", "fio: random reads of 4 KiB past the page cache, one at a time"),
                (
                    "iperf to another machine",
                    "iperf3 over loopback, to a server outside of the virtual servers; not of guests",
                ),
                (
                    "24 guests on 24 cores; 2 cores; one",
                    "as many as the scenario's key cpus says, the last of the machine",
                ),
                (
                    "200 repetitions of a benchmark",
                    "the scenario's, in rotating order, so that a drift is in all cases",
                ),
                (
                    "a spare core for the hypervisor",
                    "a CPU without virtual servers, on which the host's own work may run",
                ),
                ("weights and caps are in its tree, without numbers", "both measured"),
                ("memory allocation is in its tree, without numbers", "not varied"),
            ),
        ),
        "",
        (),
    )
