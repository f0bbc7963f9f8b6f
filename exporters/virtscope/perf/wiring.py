"""Which sources there are on this machine, and what shows the figures of each."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from prometheus_client import Metric

from virtscope.perf import groups, resctrl_metrics
from virtscope.perf.counters import Counters
from virtscope.perf.groups import Group, Plan
from virtscope.perf.metrics import Families
from virtscope.perf.profile.profiler import Profiler
from virtscope.perf.source import cgroups
from virtscope.perf.source.cgroups import Cgroup, Cgroups
from virtscope.perf.source.kernel import Kernel
from virtscope.perf.source.machine import Machine
from virtscope.perf.source.resctrl import Resctrl
from virtscope.perf.support import ABSENT_PMU
from virtscope.toolkit.exporter import Source
from virtscope.toolkit.sources import SourceError, SourceUnavailable

log = logging.getLogger(__name__)


def counted(kernel: Kernel, plan: Plan, machine: Machine, chosen: Cgroups, most_files: int) -> Source:
    """Return what counts the plan's groups from now on, for the host and for the cgroups that are chosen."""
    counters = Counters(
        kernel,
        _without_guests(plan.groups) if machine.mediated_pmu else plan.groups,
        machine,
        open_folder=chosen.open,
        most_files=most_files,
    )
    for absent in plan.absent:
        fields = {"reason": ABSENT_PMU, "advice": absent.problem, "events": f"{absent.group}/{absent.event}"}
        log.warning("events can't be counted", extra={"fields": fields})
    families = Families(plan.absent)

    def find() -> list[Cgroup]:
        try:
            return chosen.find()
        except SourceUnavailable:  # which found() says: the host is counted all the same
            return []

    def read() -> list[Metric]:
        return families.of(counters.read(find()))

    with contextlib.suppress(SourceError):  # each scrape says it again
        counters.read(find())  # counting begins now, not with the first scrape
    return Source("perf_event", read, lambda: "perf_event_open")


def _without_guests(planned: list[Group]) -> list[Group]:
    log.warning(
        "guests' events are not counted: KVM gives its guests the counters themselves (enable_mediated_pmu), and would "
        "start no guest while they are in use for one; run the exporter in the guests"
    )
    return groups.without_guests(planned)


def found(procfs: Path) -> Source:
    """Return what says whether cgroups can be found, and where; their figures are among those that are counted."""

    def read() -> list[Metric]:
        cgroups.hierarchy(procfs)
        return []

    return Source("cgroups", read, lambda: str(cgroups.hierarchy(procfs)))


def caches(sysfs: Path) -> Source:
    """Return what shows resctrl's figures."""
    resctrl = Resctrl(sysfs)
    return Source(
        "resctrl",
        lambda: resctrl_metrics.families(resctrl.read()),
        lambda: str(sysfs / "fs/resctrl"),
        required=False,
    )


def profiled(profiler: Profiler, at_end: contextlib.ExitStack) -> Source:
    """Return what shows the profiles that are taken from now on; `at_end` ends that."""
    profiler.start()
    at_end.callback(profiler.close)
    return Source("profile", profiler.read, profiler.origin, required=False, background=profiler.background)
