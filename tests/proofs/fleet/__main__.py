"""Prove that a fleet answers as one large Prometheus would, and loses nothing when parts of it die.

    python -m tests.proofs.fleet [--short] [--seed N]      (make fleet-test)

Takes 40 minutes, or 14 with --short, which only kills all parts together and for a shorter time. It proves most on an
idle machine: late scrapes change rates, and such differences are counted separately. The output is also written to
.stack/fleet-test/, with each part's log. The exit status is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy import StackError, durations
from deploy.fleet import FleetError, settings
from deploy.fleet.scraping import BUCKETS, shares
from deploy.fleet.settings import Settings
from deploy.places import CHECKOUT
from deploy.terminal import print_table
from tests.proofs.fleet import hosts as simulated
from tests.proofs.fleet import judging, story
from tests.proofs.fleet.comparison import TOLERANCE, WRONG, Tally, total
from tests.proofs.fleet.faults import LONG, MAX_PENDING, SHORT, Plan, Step, steps
from tests.proofs.fleet.hosts import SOON_SECONDS
from tests.proofs.fleet.running import Running, metrics, query

RESULTS = CHECKOUT / ".stack" / "fleet-test"
HOSTS = 12
SCRAPES, EVALUATIONS = "5s", "10s"
DRAINED_SECONDS = 120  # the bar for a backlog of ten minutes
_EXCUSED = ("shifted", "partial", "late", "delayed")
_COUNTS = ("equal", *_EXCUSED, *WRONG)
# Rules over five minutes read rates over a minute, also at full minutes, and baselines are evaluated every 40 s. Until
# these ranges are complete, a Prometheus whose first sample is five seconds older has other values.
_WARM_UP_SECONDS = 300 + 60 + 60 + 40 + 30
_SCRAPED_SECONDS = 30  # until each target was scraped, and Query has the samples
_NOTIFIED_SECONDS = 60  # from an alert at one to its notification at both: group_wait, and an Alertmanager waits 15 s


def prove(plan: Plan, seed: int, folder: Path, say: Callable[[str], None]) -> list[str]:
    """Run the proof and print its steps and measurements. Returns the missed bars."""
    chosen = settings.read().model_copy(update={"scrape_interval": SCRAPES, "evaluation_interval": EVALUATIONS})
    names = [f"host{number}" for number in range(HOSTS)]
    length = _WARM_UP_SECONDS + plan.calm + (6 if plan.each else 1) * plan.down + plan.cut + 9 * plan.settle
    hosts = story.tell(seed, names, length, _across_shards(chosen, names), quiet=_WARM_UP_SECONDS)
    with (
        simulated.Exporters(hosts, durations.parse(chosen.scrape_interval)) as exporters,
        Running(chosen, folder, exporters.targets()) as running,
    ):
        zero = exporters.begin()
        say(f"{HOSTS} hosts, seed {seed}. Waiting {_WARM_UP_SECONDS} s, until all that rules read is whole.")
        time.sleep(_SCRAPED_SECONDS)
        for address in (running.oracle, running.parts("query")[0].address):
            _require_all_targets(address, sum(map(len, exporters.targets().values())))
        _require_same_moments(running)
        time.sleep(zero + _WARM_UP_SECONDS - time.time())
        begin, before = time.time(), _written(running)
        prices: list[str] = []
        done: list[Step] = []
        for current in steps(running, plan):
            if not done:
                prices = _prices(running, before)
            done.append(current)
            say(f"{time.strftime('%H:%M:%S')} {current.name}")
        expected = judging.notified(running.oracle_webhook.messages, set(names))
        time.sleep(_NOTIFIED_SECONDS)
        notified = judging.notified(running.webhook.messages, set(names))
        time.sleep(_NOTIFIED_SECONDS)
        also = judging.notified(running.oracle_webhook.messages, set(names))
        step = durations.parse(chosen.evaluation_interval)
        span = judging.Span(-(-begin // step) * step, done[-1].end, step)
        shard_of = {name: {_shard(chosen, name), _shard(running.settings, name)} for name in names}
        interval = durations.parse(chosen.scrape_interval)
        late, failed = judging.scrapes(running, span, interval, hosts, zero)
        explained = judging.explaining(hosts, zero, span, judging.Observed(done, shard_of, late, failed))
        tallies = list(judging.judge(running, span, explained, hosts))
    missed = []
    by_rule = [(rule, total(found.values())) for rule, found in tallies]
    _print_rules(by_rule, span)
    for current in done:
        there = range(span.number(current.begin), span.number(current.end))
        tally = total(found[evaluation] for _, found in tallies for evaluation in there if evaluation in found)
        missed += _missed(current, tally)
        _say_step(current, tally, say)
    moved = sorted(name for name in names if len(shard_of[name]) > 1)
    say(f"Hosts that moved to the new shard: {len(moved)} of {HOSTS} ({', '.join(moved)}).")
    lost, more = expected - notified, notified - also
    doubled = Counter({alert: count for alert, count in more.items() if notified[alert] > 1})
    inhibited = more - doubled
    say(
        f"Alerts notified by the large Prometheus: {expected.total()}, by the fleet: {notified.total()}, "
        f"lost: {lost.total()}, doubled: {doubled.total()}, "
        f"of others, which the large Prometheus's Alertmanager inhibits: {inhibited.total()}."
    )
    for what, alerts in (("lost", lost), ("doubled", doubled), ("notified though inhibited", inhibited)):
        missed += [f"alert {what}: {sorted(alert)}" for alert in alerts]
    if not expected:
        missed.append("no alert was notified at all: nothing is proved about them")
    (RESULTS / "notifications.json").write_text(json.dumps(running.webhook.messages, indent=1))
    late_ones, failed_ones = (sum(map(len, times.values())) for times in (late, failed))
    say(f"Scrapes by all Prometheus that began late: {late_ones}; that failed though the host was up: {failed_ones}.")
    for line in prices:
        say(line)
    return missed


def _require_all_targets(address: str, wanted: int) -> None:
    """Raise FleetError unless all simulated hosts' exporters are scraped: nothing could be compared."""
    found = query(address, 'count(up{instance=~"host.+"} == 1)')
    count = int(found[0]["value"][1]) if found else 0
    if count != wanted:
        raise FleetError(
            f"{address} knows {count} of {wanted} targets. Each file of targets that a Prometheus watches takes one of "
            "fs.inotify.max_user_instances: its log says if there are too few."
        )


def _require_same_moments(running: Running) -> None:
    """Raise FleetError if a Prometheus of the fleet scrapes hosts at other moments than the large one."""
    expr = f'timestamp(up{{instance=~"host.+"}}) % {durations.parse(SCRAPES)}'
    due = {_target(series): float(series["value"][1]) for series in query(running.oracle, expr)}
    for part in running.parts("prometheus"):
        for series in query(part.address, expr):
            apart = abs(float(series["value"][1]) - due[_target(series)])
            if min(apart, durations.parse(SCRAPES) - apart) > SOON_SECONDS:
                raise FleetError(
                    f"{part.name} scrapes {_target(series)} {apart:.3f} s apart from the large Prometheus. Has the way "
                    "changed in which Prometheus spreads scrapes? tests/proofs/fleet/phases.py follows it."
                )


def _target(series: Mapping[str, Any]) -> tuple[str, str]:
    """The job and instance of a series in an answer."""
    return series["metric"]["job"], series["metric"]["instance"]


def _written(running: Running) -> tuple[float, float, float]:
    """The time, and how many bytes and samples all Prometheus have sent to the store until then."""
    sent = 0.0
    for part in running.parts("prometheus"):
        with contextlib.suppress(OSError):
            sent += metrics(part.address).get("prometheus_remote_storage_samples_total", 0)
    return time.time(), sum(link.bytes_passed for link in running.links.values()), sent


def _prices(running: Running, before: tuple[float, float, float]) -> list[str]:
    """The cost of writing to the store since then, while no part was broken."""
    seconds, passed, sent = (now - then for then, now in zip(before, _written(running), strict=True))
    receivers = running.parts("receive")
    series = ", ".join(f"{metrics(part.address)['prometheus_tsdb_head_series']:.0f}" for part in receivers)
    resident = ", ".join(f"{running.processes[part.name].resident_bytes() / 1e6:.0f}" for part in receivers)
    byte_rate, rate = passed / seconds, sent / seconds
    written = f"Written by all Prometheus: {rate:.0f} samples/s, {byte_rate:.0f} bytes/s, {byte_rate / rate:.1f} bytes"
    of_fleet = f"{1000 * rate / HOSTS:.0f} samples/s, {byte_rate / HOSTS:.0f} kB/s"
    return [
        f"{written} per sample; of 1,000 such hosts {of_fleet}, both of each pair together.",
        f"Receivers: {series} series, {resident} MB resident.",
    ]


def _across_shards(chosen: Settings, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of hosts in different shards, for the two tiers of an application each."""
    first = [name for name in names if _shard(chosen, name) == 0]
    others = [name for name in names if _shard(chosen, name) != 0]
    return list(zip(first, others, strict=False))[: story.APPLICATIONS]


def _shard(chosen: Settings, host: str) -> int:
    """The shard of a host: its bucket is Prometheus's hashmod, the last eight bytes of the MD5."""
    digest = hashlib.md5(host.encode(), usedforsecurity=False).digest()
    bucket = int.from_bytes(digest[8:], "big") % BUCKETS
    return next(number for number, buckets in enumerate(shares(chosen.shards)) if bucket in buckets)


def _print_rules(by_rule: Sequence[tuple[judging.Rule, Tally]], span: judging.Span) -> None:
    """Write every rule that has samples to a file; print those that were not equal, and the sum."""
    head = ("RULE", "COMPARED", *map(str.upper, _COUNTS), "LARGEST")
    rows = [_row(rule.name, tally) for rule, tally in by_rule if tally.compared]
    everything = total(tally for _, tally in by_rule)
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "rules.txt").open("w") as file:
        for row in [head, *rows]:
            file.write("\t".join(row) + "\n")
        for rule, tally in by_rule:
            for example in tally.examples:
                file.write(f"{rule.name}: {example}\n")
    print(f"\n{len(span.evaluations)} evaluations of {len(rows)} rules with results, of {len(by_rule)}; ", end="")
    print(f"equal is within {TOLERANCE:g} of the value. All rules: {(RESULTS / 'rules.txt').relative_to(CHECKOUT)}")
    wrong = [_row(rule.name, tally) for rule, tally in by_rule if tally.wrong]
    print_table([head, *wrong, _row("all", everything)])


def _row(name: str, tally: Tally) -> tuple[str, ...]:
    return (name, str(tally.compared), *(str(tally.counts[count]) for count in _COUNTS), f"{tally.largest:.1e}")


def _missed(step: Step, tally: Tally) -> list[str]:
    missed = []
    if tally.wrong:
        missed.append(f"{step.name}: samples {', '.join(f'{tally.counts[result]} {result}' for result in WRONG)}")
    if not tally.counts["equal"]:
        missed.append(f"{step.name}: no sample is equal, so nothing was compared")
    if step.drained is None or step.drained > DRAINED_SECONDS:
        missed.append(f"{step.name}: the backlog was not drained in {DRAINED_SECONDS} s")
    if step.most_pending > MAX_PENDING:
        missed.append(f"{step.name}: {step.most_pending:.0f} samples waited in memory, more than {MAX_PENDING}")
    return missed


def _say_step(step: Step, tally: Tally, say: Callable[[str], None]) -> None:
    before, most, after = (size / 1e6 for size in step.memory)
    drained = "never" if step.drained is None else f"{step.drained:.0f} s"
    say(
        f"{step.name}: {tally.compared} samples, {', '.join(f'{tally.counts[result]} {result}' for result in WRONG)} "
        f"({', '.join(f'{tally.counts[result]} {result}' for result in _EXCUSED)}); "
        f"backlog drained in {drained}, at most {step.most_pending:.0f} samples in a queue; memory of a Prometheus "
        f"{before:.0f} MB before, {most:.0f} MB at most, {after:.0f} MB after."
    )


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="about 14 minutes")
    parser.add_argument("--seed", type=int, default=1, help="of what happens on the hosts")
    arguments = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "result.txt").open("w") as file:

        def say(line: str) -> None:
            print(line, flush=True)
            file.write(f"{line}\n")

        try:
            missed = prove(SHORT if arguments.short else LONG, arguments.seed, RESULTS / "run", say)
        except (FleetError, StackError, AssertionError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        for bar in missed:
            say(f"MISSED: {bar}")
        say("FAILED" if missed else "PASSED")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
