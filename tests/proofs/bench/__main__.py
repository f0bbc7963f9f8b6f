"""Prints the cost of monitoring: encoding, scrapes over HTTP, whole hosts; and the project's target for each.

All values of a run are measured alternately on the same machine, so that ratios are comparable even if times aren't.
Each is the minimum of several rounds, because other processes can only add to it.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client import Metric, generate_latest

from tests.proofs.bench import counters, disks, evictions, hosts, interrupts, over_ssh, pods, scraping, sensors, waits
from tests.proofs.bench.guests import Guests, by_add_metric
from virtscope.toolkit.exposition import Encoder

SIZES = (100, 1_000, 20_000)
ENCODING_BAR = 8.0  # times less CPU than prometheus_client
SCRAPING_ROUNDS, SCRAPES = 6, 8
SCRAPE_BAR = 5.0  # times less CPU per series than node_exporter

Encode = Callable[[list[Metric]], bytes]


def main() -> None:
    """Run all benchmarks."""
    print(
        f"Python {platform.python_version()}, prometheus_client {version('prometheus_client')}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[0]:.1f} at the start (a quiet machine gives the steadiest values)"
    )
    _encoding()
    _whole_scrapes()
    hosts.measure()
    over_ssh.measure()
    counters.measure()
    waits.measure()
    disks.measure()
    interrupts.measure()
    evictions.measure()
    pods.measure()
    sensors.measure()


def _verdict(ratio: float, bar: float) -> str:
    return f"{ratio:5.1f} times less: {'met' if ratio >= bar else 'MISSED'}"


# --- Encoding alone ---------------------------------------------------------------------------------------------------


def _encoding() -> None:
    print(f"\nEncoding alone, CPU ms per 1,000 series; bar: {ENCODING_BAR:.0f} times less than stock")
    print("  series   ours     stock")
    for series in SIZES:
        encoders = Encoder().text, _stock(generate_latest)
        mine, theirs = (seconds / series * 1e6 for seconds in _encode_in_turns(encoders, Guests(series)))
        print(f"{series:8,}{mine:7.2f}{theirs:10.2f}   {_verdict(theirs / mine, ENCODING_BAR)}")


class _Given(NamedTuple):
    """A registry of families that were collected before."""

    families: list[Metric]

    def collect(self) -> list[Metric]:
        return self.families


def _stock(generate_latest: Callable[..., bytes]) -> Encode:
    return lambda families: generate_latest(_Given(families))


def _encode_in_turns(encoders: Sequence[Encode], guests: Guests) -> list[float]:
    """Minimum CPU seconds of each encoder for a scrape of new objects with changed values."""
    families = [by_add_metric(family) for family in guests.collect()]
    assert len({encode(families) for encode in encoders}) == 1, "they write different expositions"
    least = [float("inf")] * len(encoders)
    for _ in range(max(15, 20_000 // guests.series)):
        for index, encode in enumerate(encoders):
            families = [by_add_metric(family) for family in guests.collect()]
            begun = time.process_time()
            encode(families)
            least[index] = min(least[index], time.process_time() - begun)
    return least


# --- Whole scrapes ----------------------------------------------------------------------------------------------------


def _whole_scrapes() -> None:
    print(
        "\nWhole scrapes as Prometheus makes them: HTTP on a kept connection, gzip; the server's CPU"
        f"\nBar: {SCRAPE_BAR:.0f} times less per series than node_exporter (a server's own metrics count as series)"
        "\n  series  server                       ms per scrape  ms per 1,000 series"
    )
    with ExitStack() as running:

        def start(name: str, target: scraping.Target) -> tuple[str, scraping.Target]:
            return name, running.enter_context(target)

        named = [
            start("node_exporter, its defaults", scraping.node_exporter()),
            start("ours, source without guests", scraping.python_server("ours", 0)),
        ]
        for series in SIZES:
            named.append(start("ours", scraping.python_server("ours", series)))
            named.append(start("stock prometheus_client", scraping.python_server("stock", series)))
        costs = scraping.in_turns([target for _, target in named], SCRAPING_ROUNDS, SCRAPES)

    per_series = [seconds / target.series for seconds, (_, target) in zip(costs, named, strict=True)]
    for (name, target), seconds, each in zip(named, costs, per_series, strict=True):
        verdict = f"   {_verdict(per_series[0] / each, SCRAPE_BAR)}" if name == "ours" else ""
        print(f"{target.series:8,}  {name:28}{seconds * 1e3:14.2f}{each * 1e6:21.2f}{verdict}")
    print("The cost of a scrape without guests is fixed: the request, and the exporter's metrics about itself.")


if __name__ == "__main__":
    main()
