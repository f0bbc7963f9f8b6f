"""An hour of each host with an exporter of its own, as recordings that the exporters replay in a loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from demo import kvm, openvz, shop, story, xen
from demo.model import Counters
from demo.study import SOURCE
from virtscope.toolkit.recording import Header, Writer

# Seconds between two readings, the maximum delay of a counter. OpenVZ's overhead is a small difference of two counters,
# one of which comes from here and the other from the sensors' pages.
INTERVAL = 0.5
_XL_INTERVAL = 30  # seconds; the exporter's own interval
_Read = Callable[[Counters, float], object]
_OF: dict[str, tuple[str, dict[str, tuple[float, _Read]]]] = {  # by host: the exporter, and how its sources are read
    "demo-xen": ("xentop", {"xl": (_XL_INTERVAL, xen.toolstack), "libxenstat": (INTERVAL, xen.snapshot)}),
    "demo-openvz": ("vestat", {"procfs": (INTERVAL, openvz.files)}),
    shop.HOST: ("kvm", {"libvirt": (kvm.LIBVIRT_INTERVAL, kvm.libvirt), "procfs": (kvm.INTERVAL, kvm.files)}),
}


def write(folder: Path, origin: float, begin: float) -> None:
    """Write them, starting at this Unix time; the exporters replay them from that time on, forever."""
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
