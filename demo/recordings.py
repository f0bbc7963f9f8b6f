"""An hour of demo-xen and of demo-openvz as recordings, which the exporters play round and round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from demo import openvz, story, xen
from demo.model import Counters
from demo.study import SOURCE
from virtscope.shell.recording import Header, Writer

INTERVAL = 5  # seconds between two readings
_OF: dict[str, tuple[str, str, Callable[[Counters, float], object]]] = {
    "demo-xen": ("xentop", "libxenstat", xen.snapshot),
    "demo-openvz": ("vestat", "procfs", openvz.files),
}


def write(folder: Path, origin: float, begin: float) -> None:
    """Write both, beginning at this Unix time with the counters of then, which the exporters go on with for ever."""
    for host, (exporter, source, read) in _OF.items():
        counters, file = Counters(host, origin), folder / f"{host}.jsonl.gz"
        writer = Writer(file, Header(exporter, (source,), INTERVAL, f"never: made from {SOURCE}", anonymised=False))
        for seconds in range(0, story.CYCLE, INTERVAL):
            writer.write(seconds, source, read(counters, begin + seconds))
        writer.close()
        file.chmod(0o644)  # nothing in it is anybody's secret, and exporters may be other users'
