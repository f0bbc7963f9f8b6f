"""The recorded past: how long requests took at which use of the CPUs, and how guests wait on each host."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advise.model import Past
from advise.queueing import Numbers, delay, waiting
from advise.reading import ANSWERED, SETTLED, Key, Place, Reading, place_of, requests_query

MIN_REQUESTS = 10.0  # in a step: fewer say little about their mean
LITTLE_WAITING = 0.02  # CPUs' worth: so much is added to what is expected and what is measured before they are compared
BURSTS = 0.2, 5.0  # between these
LEAVING = 60.0  # seconds for which there are still rates of requests


@dataclass(frozen=True)
class History:
    """By application, wherever it was: its intervals; by host: how many times as long as expected its guests wait."""

    pasts: Mapping[str, Past]
    bursts: Mapping[Place, float]


@dataclass(frozen=True)
class _Recorded:
    """What was recorded at the times of a reading."""

    requests: Mapping[Key, Numbers]  # per second, by application
    response: Mapping[Key, Numbers]
    used: Mapping[Place, Numbers]  # CPUs
    cpus: Mapping[Place, Numbers]
    cpu: Mapping[Key, Numbers]  # by guest
    cap: Mapping[Key, Numbers]
    vcpus: Mapping[Key, Numbers]
    bursts: Mapping[Place, float]
    coming: int  # intervals in which rates are of a part, as a guest has just come
    going: int  # intervals in which rates remain of a guest that has gone

    def rows(self, app: str, at: Place, guests: Collection[Key], enough: float) -> Past | None:
        """The intervals in which the web tier on this host answered `enough` requests per second; None without any.

        guests: the application's, on the hosts where they are or were.
        """
        rate = self.requests[app, at]
        everywhere = np.sum([np.nan_to_num(each) for (of, _), each in self.requests.items() if of == app], axis=0)
        work, expected, copies = np.zeros_like(rate), np.zeros_like(rate), np.zeros_like(rate)
        none = np.full_like(rate, np.nan)
        known = _settled(rate, self.coming, self.going)
        for (guest, on), cpu in self.cpu.items():
            if on.platform != at.platform or (guest, on) not in guests or on not in self.used:
                continue
            known &= ~_gaps(self.used[on])  # a tier may be missing
            # A guest on the host of another web tier works for that web tier.
            web_there = np.nan_to_num(self.requests.get((app, on), none)) > 0
            served = rate if on == at else np.where(web_there, np.nan, everywhere)
            part = np.divide(cpu, served, out=none.copy(), where=served > 0)
            there = np.isfinite(part)
            known &= ~there | _settled(part, self.coming, self.going)
            work += np.where(there, part, 0.0)
            expected += np.where(there, self._delay(guest, on, np.nan_to_num(part)), 0.0)
            copies += there
        response = self.response[app, at]
        # While a guest is moved, it is seen on both hosts.
        names = {guest for guest, _ in guests}
        known &= (rate >= enough) & (response > 0) & (work > 0) & ~np.isnan(expected) & (copies <= len(names))
        return Past(response[known], work[known], expected[known]) if known.any() else None

    def _delay(self, guest: str, on: Place, work: Numbers) -> Numbers:
        none = np.full_like(work, np.nan)
        return delay(
            work,
            np.nan_to_num(self.cpu[guest, on]),
            cap=self.cap.get((guest, on), none),
            vcpus=self.vcpus.get((guest, on), none),
            used=self.used[on],
            cpus=self.cpus[on],
            bursts=self.bursts.get(on, 1.0),
        )


def history(reading: Reading, mapped: Mapping[Key, Collection[str]]) -> History:
    """`mapped` are applications by guest and host. Raises `AdviceError`."""

    def by(expr: str, label: str) -> dict[Key, Numbers]:
        return {(labels[label], place_of(labels)): values for labels, values in reading.series(expr)}

    def by_place(expr: str) -> dict[Place, Numbers]:
        return {place_of(labels): values for labels, values in reading.series(expr)}

    steal = by_place("avg_over_time(host:cpu_steal:rate{$hosts}[$step])")
    cpus = {
        on: values - np.nan_to_num(steal.get(on, 0.0 * values))
        for on, values in by_place("avg_over_time(host:cpu_capacity:cpus{$hosts}[$step])").items()
    }
    used = {
        on: values for on, values in by_place("avg_over_time(host:cpu_usage:rate{$hosts}[$step])").items() if on in cpus
    }
    waits = 'vserver:cpu_wait:rate{$hosts,role="guest"}'
    use = f'vserver:cpu_usage:rate{{$hosts,role="guest"}} and on (host, platform, vserver) {waits}'
    guests_used, guests_waited = (
        by_place(f"avg_over_time((sum by (host, platform) ({of}))[$step:30s])") for of in (use, waits)
    )
    answered, seconds = (by(requests_query(what, "$step", ANSWERED), "app") for what in ("count", "sum"))
    recorded = _Recorded(
        requests=by(requests_query("count", "$step"), "app"),
        response={
            key: np.divide(seconds[key], rate, where=rate > 0, out=rate * np.nan)
            for key, rate in answered.items()
            if key in seconds
        },
        used=used,
        cpus=cpus,
        cpu=by('avg_over_time(group:mapped_cpu_usage:rate{$hosts,role="guest"}[$step])', "vserver"),
        cap=by("vserver:cpu_limit:cpus{$hosts}", "vserver"),
        vcpus=by("vserver:vcpus:count{$hosts}", "vserver"),
        bursts={
            on: _bursts(guests_waited[on], guests_used[on] * waiting(used[on], cpus[on]))
            for on in used
            if on in guests_used and on in guests_waited
        },
        coming=math.ceil(SETTLED / reading.step),
        going=math.ceil(1 + LEAVING / reading.step),
    )
    found: dict[str, list[Past]] = defaultdict(list)
    for app, at in recorded.response:
        guests = {key for key, apps in mapped.items() if key[1].platform == at.platform and app in apps}
        if (app, at) not in recorded.requests:
            continue
        if rows := recorded.rows(app, at, guests, MIN_REQUESTS / reading.step):
            found[app].append(rows)
    return History({app: _joined(rows) for app, rows in found.items()}, recorded.bursts)


def _bursts(waited: Numbers, expected: Numbers) -> float:
    known = np.isfinite(waited) & np.isfinite(expected)
    if not known.any():
        return 1.0
    ratio = (waited[known].mean() + LITTLE_WAITING) / (expected[known].mean() + LITTLE_WAITING)
    return float(np.clip(ratio, *BURSTS))


def _joined(rows: list[Past]) -> Past:
    def together(name: str) -> Any:
        return np.concatenate([getattr(each, name) for each in rows])

    return Past(together("response"), together("work"), together("waiting"))


def _gaps(values: Numbers) -> NDArray[np.bool_]:
    """Where values are missing between others."""
    there = np.flatnonzero(np.isfinite(values))
    missing = np.isnan(values)
    if len(there):
        missing[: there[0]] = missing[there[-1] :] = False
    return missing


def _settled(values: Numbers, coming: int, going: int) -> NDArray[np.bool_]:
    """Where there are values for so many intervals before and after, as rates change while a guest comes or goes."""
    padded = np.pad(np.isfinite(values), (coming, going), constant_values=(False, True))  # at the end it hasn't gone
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, coming + going + 1).all(axis=1))
