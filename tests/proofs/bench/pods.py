"""Cost of the chart's exporters on a node with many pods, scraped as often as the chart says. As root."""

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.proofs.bench import scraping
from tools.chart import SOURCE
from virtscope.toolkit.collect import SourceError
from virtscope.toolkit.hierarchy import hierarchy

PODS, CONTAINERS = 250, 2  # in each pod, one that holds its namespaces
BAR = 0.01  # of a core, for all exporters
ROUNDS = 5
_TOP = "virtscope-bench"


def measure() -> None:
    """Print the table."""
    values = yaml.safe_load((SOURCE / "values.yaml").read_text())
    interval = int(values["prometheusOperator"]["scrapeInterval"].removesuffix("s"))
    counted = [f"--cgroup.include=/{_TOP}{glob}" for glob in values["perf"]["cgroups"]]
    flags = {"sched": [], "perf": counted, "kvm": []}
    print(
        f"\nA node with {PODS} pods, scraped every {interval} s; bar: {BAR:.0%} of a core for all exporters"
        "\n  exporter   series  ms per scrape  of a core  resident"
    )
    whole = 0.0
    try:
        with _pods():
            for exporter, given in flags.items():
                with scraping.exporter(exporter, *given) as target:
                    [seconds] = scraping.in_turns([target], ROUNDS, 5)
                    resident = target.resident_bytes()
                share = seconds / interval
                whole += share
                print(f"  {exporter:8}{target.series:9,}{seconds * 1e3:15.2f}{share:11.2%}{resident / 1e6:7.0f} MB")
    except (SourceError, OSError) as error:
        print(f"  not measured: {error}")
        return
    print(f"  all{whole:40.2%}   {scraping.verdict(whole, BAR)}")


@contextlib.contextmanager
def _pods() -> Iterator[None]:
    """Cgroups as the kubelet makes them, in a folder of their own."""
    tops = {hierarchy(Path("/proc"), controller).root / _TOP for controller in ("cpu", "perf_event")}
    pods = [f"kubepods/burstable/pod{uuid.uuid4()}" for _ in range(PODS)]
    try:
        for pod in pods:
            for container in range(CONTAINERS):
                for top in tops:
                    (top / pod / f"{container:064x}").mkdir(parents=True)
        yield
    finally:
        for top in tops:
            for folder in sorted([top, *top.rglob("*/")], reverse=True):
                if folder.is_dir():
                    folder.rmdir()


if __name__ == "__main__":
    measure()
