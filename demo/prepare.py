"""The demo's files: configuration, a day of history until now, and recordings to replay from now on."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from demo import history, kvm, openmetrics, openvz, past, shop, story, xen
from demo.model import Counters
from demo.openmetrics import Series
from demo.study import SOURCE
from demo.targets import stage, targets
from virtscope.toolkit.recording import Header, Writer

HISTORY = 27 * 3600  # seconds: baselines need a day, and the maximum of requests two hours more
# Seconds until everything is generated, on an otherwise idle machine.
_QUIET = 10
_ORIGIN = "origin"
# Seconds between two readings, the maximum delay of a counter. OpenVZ's overhead is a small difference of two counters,
# one from this recording and one from the sensors' pages.
_INTERVAL = 0.5
_XL_INTERVAL = 30  # seconds; the exporter's own interval
_Read = Callable[[Counters, float], object]
_OF: dict[str, tuple[str, dict[str, tuple[float, _Read]]]] = {  # by host: the exporter, and how its sources are read
    "demo-xen": ("xentop", {"xl": (_XL_INTERVAL, xen.toolstack), "libxenstat": (_INTERVAL, xen.snapshot)}),
    "demo-openvz": ("vestat", {"procfs": (_INTERVAL, openvz.files)}),
    shop.HOST: ("kvm", {"libvirt": (kvm.LIBVIRT_INTERVAL, kvm.libvirt), "procfs": (kvm.INTERVAL, kvm.files)}),
}


def prepare(folder: Path, promtool: Path, prometheus: Path, ports: Mapping[str, int], seconds: int = HISTORY) -> int:
    """Fill the folder, with these programs; `seconds` is the length of the history. Return its end, in Unix time.

    ports: see `targets.targets`.
    """
    for left in folder.iterdir():  # from an earlier demo
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    wanted = targets(ports)
    stage(folder, wanted)
    end = (int(time.time()) + _ahead()) // history.LIVE_STEP * history.LIVE_STEP
    begin = end - seconds
    origin = min(begin, end - history.FOR_RULES) - story.CYCLE
    (folder / _ORIGIN).write_text(f"{origin}\n")
    data = folder / "data"
    data.mkdir()

    def add(series: Iterable[Series]) -> None:
        openmetrics.blocks(promtool, openmetrics.write(folder, series), data)

    with ProcessPoolExecutor(1) as beside:
        recorded = beside.submit(_record, folder, origin, time.time())
        add(history.samples(wanted, begin, end, origin))
        until_now = past.Past(prometheus, data, begin, end)
        recording, alerting = past.read_rules(folder)
        for rules in past.rounds(recording):
            add(past.records(rules, until_now))
        asked = time.monotonic()
        add(past.alerts(alerting, until_now))
        busy = time.monotonic() - asked
        recorded.result()
    soon = int(time.time() + 2 * busy) // history.LIVE_STEP * history.LIVE_STEP
    if soon > end:  # so that live rates are complete from the first one on
        add(history.latest(wanted, end, soon, origin))
    # Prometheus, started after this, discards samples older than its own.
    time.sleep(max(end - time.time(), soon - time.time(), 0))
    return end


def _record(folder: Path, origin: float, begin: float) -> None:
    """Write an hour of each host with an exporter of its own, which replays it from this Unix time on, forever."""
    for host, (exporter, sources) in _OF.items():
        counters, file = Counters(host, origin), folder / f"{host}.jsonl.gz"
        step = min(interval for interval, _ in sources.values())
        made = "never: simulated" if host == shop.HOST else f"never: made from {SOURCE}"
        writer = Writer(file, Header(exporter, tuple(sources), step, made, anonymised=False, begins=begin))
        for number in range(round(story.CYCLE / step)):
            seconds = number * step
            for source, (interval, read) in sources.items():
                if seconds % interval == 0:
                    writer.write(seconds, source, read(counters, begin + seconds))
        writer.close()
        file.chmod(0o644)  # it contains no secrets, and the exporters may run as other users


def _ahead() -> int:
    """How far the history extends into the future, in seconds: until Prometheus is started, longer on a busy machine.

    If startup takes longer, records are missing; a gap of a minute isn't visible.
    """
    return round(_QUIET * min(1 + os.getloadavg()[0] / (os.cpu_count() or 1) / 2, 8))


def read_origin(folder: Path) -> float:
    """When the counters of a prepared demo were 0, in Unix time."""
    return float((folder / _ORIGIN).read_text())
