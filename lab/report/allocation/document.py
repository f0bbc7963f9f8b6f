"""The report's content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.report.allocation import panels, tables
from lab.report.allocation.groups import Group, groups
from lab.report.allocation.recording import OF_RUN, Recording
from lab.report.allocation.steps import Measured, measured
from lab.report.allocation.study import AllocationStudy
from lab.report.allocation.verdict import verdict
from lab.report.document import Asked, Document, Part, incomplete
from lab.report.loads import count
from lab.report.tables import Table, time
from lab.report.units import CPUS, RATE

CONTAINERS, MACHINE, SECONDS = (
    f"lab_allocation_{name}_total" for name in ("container_cpu_seconds", "machine_cpu_seconds", "seconds")
)
STEP = ("lab_allocation_step_info", "lab_allocation_step_planned_seconds")
CALLS = tuple(f"lab_allocation_{name}_total" for name in ("calls", "call_cpu_seconds", "call_seconds"))
ONE_INTERVAL = "A chart needs more than one interval; the table has the numbers."


def write_up(recording: Recording, study: AllocationStudy, prometheus: str) -> Document:
    """The content of a run's report; `prometheus` is the address of the data's source."""
    every = measured(recording)
    of = groups(every)
    info = recording.given["lab_run_info"]
    known = info[0].labels if info else {}
    planned = recording.given["lab_run_planned_steps"]
    unfinished = incomplete(sum(one.whole for one in every), planned[0].value if planned else 0)
    return Document(
        title=f"Run {recording.run.name}: scenario {recording.run.scenario}",
        verdict=(*verdict(of, _cpus(known), emulated=known.get("emulated") == "yes"), *unfinished),
        facts=tuple(_facts(recording, known, every, prometheus)),
        parts=(*_parts(recording, of, study), _differences(known)) if of else (),
        overview=tables.answers(of, study),
        steps=tables.steps(every),
        remarks=tuple(
            (one.step.name, f"cut short: {one.duration:.0f} s were measured of {one.planned:.0f} s; it isn't used")
            for one in every
            if not one.whole
        ),
        study=study,
        method="allocation.txt",
    )


def _cpus(known: Mapping[str, str]) -> float | None:
    """How many this machine has; those of another host aren't known."""
    number = known.get("cpus", "")
    return float(number) if number.isdecimal() and not known.get("target") else None


def _facts(
    recording: Recording, known: Mapping[str, str], every: Sequence[Measured], prometheus: str
) -> list[tuple[str, str]]:
    run = recording.run
    unknown = "not recorded"
    repetitions = max((one.step.repetition for one in every), default=0)
    cpu = f", {known.get('cpus', '?')} CPUs, {known['cpu']}" if known.get("cpu") else ""
    software = [part for part in (known.get("os"), known.get("kernel") and f"Linux {known['kernel']}") if part]
    return [
        ("When", f"{time(run.start)} to {time(run.end)}"),
        ("What", f"{count(len(every), 'step')}, {count(repetitions, 'repetition')} of each; warm-up is not in them"),
        *_whose(known),
        ("Machine", f"{run.host}{cpu}"),
        ("Software", ", ".join(software) or unknown),
        ("virtscope", known.get("version") or unknown),
        ("Asked", f"{prometheus} at {time(recording.asked_at)}"),
    ]


def _whose(known: Mapping[str, str]) -> list[tuple[str, str]]:
    if not (target := known.get("target")):
        return []
    emulated = ", emulated" if known.get("emulated") == "yes" else ""
    return [("Guests", f"of {target} ({known.get('virtualization')}{emulated}); what follows is the lab's own machine")]


def _parts(recording: Recording, of: Sequence[Group], study: AllocationStudy) -> list[Part]:
    def part(key: str, title: str, text: str, figure: str | None, table: Table, *metrics: str) -> Part:
        run = recording.run
        asked = Asked(
            f"the whole run, {time(run.start)} to {time(run.end)}",
            tuple(recording.asked[metric] for metric in (*STEP, *metrics)),
        )
        absent = "" if figure else ONE_INTERVAL
        return Part(key, title, text, figure, absent, table, study.said.get(key, ""), (asked,))

    return [
        part(
            "capacity",
            "Capacity overhead",
            "CPU that all containers together lost to the switching: (static - switched) / static, each step relative "
            "to the static one of its block. The control, which writes equal caps again, shows how much is noise.",
            panels.lost(of, lambda one: one.capacity, "capacity", "Capacity overhead"),
            tables.overheads(of, lambda one: one.capacity, CPUS),
            *(CONTAINERS, SECONDS),
        ),
        part(
            "performance",
            "Performance overhead",
            "The same of the tasks that all containers together finished, or of the requests that they answered. Each "
            "is always the same amount of work, so what is lost here and not in capacity is CPU that did less: cold "
            "caches, a slower clock, a neighbour on the same core.",
            panels.lost(of, lambda one: one.performance, "performance", "Performance overhead"),
            tables.overheads(of, lambda one: one.performance, RATE),
            *("lab_allocation_tasks_total", SECONDS),
        ),
        part(
            "host",
            "Host's own CPU",
            "CPU used outside of the containers, by whatever else runs on this machine. If switches cost CPU, it is "
            "static + c * f, with f = 1 / interval and c the CPU of a switch. The line is fitted by least squares to "
            "all steps; the call is the slope of the control's, the reallocation what switched steps used beyond the "
            "control of their block.",
            panels.host(of, "host", "Host's own CPU"),
            tables.host(of),
            *(MACHINE, CONTAINERS, SECONDS),
        ),
        part(
            "switch",
            "At a switch",
            "What happens in the seconds after caps are written, averaged over all switches of a step. CPU of one, "
            "from its first seconds: what was used in the first two beyond what was used later. CPU of the writing: "
            "that of the lab's own process meanwhile, the kernel's work on its behalf included. Delay: from how much "
            "the containers used in the first two seconds, compared with later.",
            panels.after(of, "switch", "Host's own CPU after a switch"),
            tables.switches(of),
            *(MACHINE, CONTAINERS, SECONDS, *CALLS),
        ),
        Part(
            "run",
            "Machine and plan",
            "Where the facts at the top of this page come from.",
            None,
            "",
            None,
            "",
            (Asked("the whole run", tuple(recording.asked[metric] for metric in OF_RUN)),),
        ),
    ]


def _differences(known: Mapping[str, str]) -> Part:
    platform = known.get("virtualization", "cgroup")
    return Part(
        "differences",
        "What differs from the study",
        "Read the study's numbers as shapes, not as targets.",
        None,
        "",
        Table(
            ("The study", "Here"),
            (
                *_DIFFERENCES[platform],
                ("one static baseline", "a static step and a control in each block, in rotating order"),
                ("a delay from values of each second", "a delay from CPU time used, so also below a second"),
            ),
        ),
        "",
        (),
    )


_AWK = (
    "computational and transactional load",
    "an endless loop in awk, 20 ms of CPU a task; without it the guests' own load, of which no tasks are counted",
)
_OVER_SSH = (
    "a controller calls `xm` over ssh",
    "commands in a shell that stays connected, so a switch costs no new connection",
)
_DIFFERENCES = {
    "cgroup": (
        ("Xen guests; OpenVZ containers", "cgroups of this machine's kernel, so closest to OpenVZ"),
        ("the host is Dom0, which runs guests' I/O", "the host is everything outside of the containers' cgroups"),
        ("a controller calls `xm` over ssh", "the lab writes cpu.max itself (version 1: cpu.cfs_quota_us)"),
        ("caps by Xen's credit scheduler", "CFS bandwidth with a period of 20 ms"),
        ("virtual CPUs pinned, or not", "pinned: all containers on the last CPU, others may run there too"),
        (
            "a transactional load of web requests, its clients on other machines",
            "pages of equal work; their clients are in a cgroup that is left out of the host's CPU",
        ),
    ),
    "xen": (
        ("the Xen of 2007", "that of the host above; all its other domains count as the host too"),
        _AWK,
        _OVER_SSH,
        ("virtual CPUs pinned, or not", "left as they are"),
        ("CPU each second", "the same, by `xl list` in steps of 0.1 s, which itself costs Dom0 CPU in all steps"),
    ),
    "openvz": (
        ("Xen guests; OpenVZ containers", "containers of OpenVZ"),
        _AWK,
        _OVER_SSH,
        ("virtual CPUs pinned, or not", "left as they are"),
    ),
    "kvm": (
        ("Xen guests; OpenVZ containers", "KVM guests of libvirt, each with all threads of its QEMU"),
        ("the host is Dom0, which runs guests' I/O", "the host is everything outside of these guests' cgroups"),
        _AWK,
        _OVER_SSH,
        ("caps by Xen's credit scheduler", "CFS bandwidth with a period of 20 ms"),
        ("virtual CPUs pinned, or not", "left as they are"),
    ),
}
