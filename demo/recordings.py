"""An hour of demo-xen and of demo-openvz as recordings, which the exporters replay in a loop; and demo-kvm's.

demo-kvm is in no study. kvm.jsonl.gz is what `kvm-exporter record` wrote on a host with libvirt whose hardware QEMU
emulated (Linux 6.1, libvirt 9.0): three quarters of a minute of four guests that compute, read their disk, are capped
and are paused.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from demo import openvz, story, xen
from demo.model import Counters
from demo.study import SOURCE
from virtscope.toolkit.recording import Header, Writer

# Seconds between two readings, the maximum delay of a counter. OpenVZ's overhead is a small difference of two counters,
# one of which comes from here and the other from the sensors' pages.
INTERVAL = 0.5
KVM_HOST = "demo-kvm"
KVM_RECORDING = Path(__file__).with_name("kvm.jsonl.gz")
_XL_INTERVAL = 30  # seconds; the exporter's own interval
_Read = Callable[[Counters, float], object]
_OF: dict[str, tuple[str, dict[str, tuple[float, _Read]]]] = {  # by host: the exporter, and how its sources are read
    "demo-xen": ("xentop", {"xl": (_XL_INTERVAL, xen.toolstack), "libxenstat": (INTERVAL, xen.snapshot)}),
    "demo-openvz": ("vestat", {"procfs": (INTERVAL, openvz.files)}),
}


def write(folder: Path, origin: float, begin: float) -> None:
    """Write them, the study's starting at this Unix time; the exporters replay them from that time on, forever."""
    _readable(Path(shutil.copy(KVM_RECORDING, folder / f"{KVM_HOST}.jsonl.gz")))
    for host, (exporter, sources) in _OF.items():
        counters, file = Counters(host, origin), folder / f"{host}.jsonl.gz"
        made = f"never: made from {SOURCE}"
        writer = Writer(file, Header(exporter, tuple(sources), INTERVAL, made, anonymised=False, begins=begin))
        for number in range(round(story.CYCLE / INTERVAL)):
            seconds = number * INTERVAL
            for source, (interval, read) in sources.items():
                if seconds % interval == 0:
                    writer.write(seconds, source, read(counters, begin + seconds))
        writer.close()
        _readable(file)


def _readable(file: Path) -> None:
    file.chmod(0o644)  # it contains no secrets, and the exporters may run as other users
