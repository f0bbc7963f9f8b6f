"""Costs of a byte and a request, and the misses behind them, as in Menon et al. 2005: against a chosen baseline.

The cost ratio of two configurations is their instruction ratio / their throughput ratio; a configuration is a host with
all its guests, or one virtual server. A cost is all work divided by all bytes or requests, so it is theirs only where
little else is done: below a floor it is absent.
"""

from typing import NamedTuple

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, Signal


class Divisor(NamedTuple):
    """What a cost is divided by."""

    record: str
    floor: str
    absent: str


BYTES = Divisor(
    "traffic:rate",
    "1e4",  # an idle guest's own traffic is less (ARP, time, scrapes of its exporters), and its CPU is housekeeping
    "Bytes are not counted, or below 10 kB/s: docs/vocabulary.md, Network and disk.",
)
REQUESTS = Divisor(
    "requests:rate",
    "0.5",  # 60 in the two minutes of the rates, a number that chance changes by an eighth; health checks are fewer
    "No sensor counts requests, or below 0.5/s: docs/sensors.md.",
)

MAX_ROWS = 50
"""Virtual servers in a table: those with most bytes or requests."""

_USED = ("cpu_usage:rate",)
_INSTRUCTIONS = ("events:rate", 'group="cache", event="instructions"')
_CYCLES = ("events:rate", 'event="cycles"')
_MISSES = {"LLC": "cache-misses", "dTLB": "dTLB-load-misses", "iTLB": "iTLB-load-misses"}
_HOSTS = 'host=~"$hosts"'
_BASE_HOST = 'host="$base_host"'
_THEN = " offset $base_time"
_NO_EVENTS = "No events and bytes of the same host: Caches and events says why events are missing."
_SAME_LOAD = "all that was done: compare under the same load."


class Level(NamedTuple):
    """Subject of costs: the first part of its records' names, and their labels."""

    name: str
    labels: str
    chosen: str
    baseline: str
    legend: str

    def amount(self, by: Divisor = BYTES) -> Signal:
        """Bytes received and sent, or requests answered."""
        amount = self._of(self.chosen, by.record)
        if by is REQUESTS:
            return Signal("Requests", amount, units.RequestsPerSecond, "Requests answered.", by.absent)
        description = "Bytes received and sent per second."
        return Signal("Throughput", amount, units.BytesPerSecondSI, description, by.absent, legend=self.legend)

    def over_time(self) -> list[Signal]:
        """The study's measure; CPU seconds, which every platform has; and traffic."""
        traffic = self._of(self.chosen, BYTES.record)
        return [
            Signal(
                "Instructions per byte",
                self._cost(self.chosen, _INSTRUCTIONS, traffic, BYTES),
                units.NoUnit,
                f"Instructions per byte received or sent. They include {_SAME_LOAD}",
                _NO_EVENTS,
                legend=self.legend,
            ),
            Signal(
                "CPU per byte",
                self._cost(self.chosen, _USED, traffic, BYTES),
                units.Seconds,
                f"CPU time per byte received or sent. It includes {_SAME_LOAD}",
                BYTES.absent,
                legend=self.legend,
            ),
            self.amount(),
        ]

    def of_bytes(self) -> list[Signal]:
        """The cost of a byte: the highest ratios first, and their parts."""
        absent = "Neither events nor bytes are known of both: choose another under Baseline."
        return [
            self._cost_ratio("Cost ratio", _INSTRUCTIONS, BYTES, absent),
            self._cost_ratio("Cost (CPU)", _USED, BYTES, absent),
            self._ratio("Instr. ratio", *_INSTRUCTIONS, absent=absent),
            self._ratio("Traffic ratio", BYTES.record, absent=absent),
            self._cost_ratio("Cost (cycles)", _CYCLES, BYTES, absent),
            Signal("Instr./byte", self._cost_now(_INSTRUCTIONS, BYTES), units.NoUnit, decimals=1),
            Signal("CPU/byte", self._cost_now(_USED, BYTES), units.Seconds, decimals=1),
        ]

    def of_requests(self) -> list[Signal]:
        """The cost of a request, in the same order."""
        absent = "No requests are known of the baseline: choose another under Baseline, or see docs/sensors.md."
        return [
            self._cost_ratio("Cost ratio", _INSTRUCTIONS, REQUESTS, absent),
            self._cost_ratio("Cost (CPU)", _USED, REQUESTS, absent),
            self._ratio("Rate ratio", REQUESTS.record, by=REQUESTS, absent=absent),
            self._cost_ratio("Cost (cycles)", _CYCLES, REQUESTS, absent),
            Signal("Instr./request", self._cost_now(_INSTRUCTIONS, REQUESTS), units.Short),
            Signal("CPU/request", self._cost_now(_USED, REQUESTS), units.Seconds),
        ]

    def of_misses(self) -> list[Signal]:
        """Miss rates (misses / instructions), and the misses themselves."""
        absent = "No misses are known of the baseline: choose another, or see Caches and events for why."
        of_tlb = [(name, f'event="{_MISSES[name]}"', 'event="instructions"') for name in ("dTLB", "iTLB")]
        return [
            self._ratio("LLC rate", "llc_misses_per_instruction:ratio", absent=absent),
            *(self._event_ratio(f"{name} rate", part, whole, absent) for name, part, whole in of_tlb),
            *(
                self._ratio(f"{name} misses", "events:rate", f'event="{event}"', absent=absent)
                for name, event in _MISSES.items()
            ),
            self._ratio("IPC", "ipc:ratio", absent=absent)
            if self is VSERVER
            else self._event_ratio("IPC", _INSTRUCTIONS[1], _CYCLES[1], absent),
        ]

    def _of(self, matchers: str, record: str, narrowed: str = "", at: str = "") -> str:
        return f"{self.name}:{record}{{{', '.join(filter(None, [matchers, narrowed]))}}}{at}"

    def _most(self, by: Divisor) -> str:
        """The chosen with a row in a table."""
        chosen = self._of(self.chosen, by.record)
        return chosen if self is HOST else f"topk({MAX_ROWS}, {chosen})"

    def _cost(self, matchers: str, part: tuple[str, ...], divisor: str, by: Divisor, at: str = "") -> str:
        # The platform of hosts is that of the divisor.
        of_part = matchers if self is not HOST else _BASE_HOST if matchers == self.baseline else _HOSTS
        cost = f"({self._of(of_part, *part)}{at} > 0) / on ({self.labels}) ({divisor}{at} > {by.floor})"
        # On Xen each guest counts its own events.
        all_counted = f" and on ({self.labels}) {self._of(of_part, 'events_covered:ratio')}{at} > 0.99"
        return cost + all_counted if self is HOST and part is not _USED else cost

    def _cost_now(self, part: tuple[str, ...], by: Divisor) -> str:
        return self._cost(ANY_HOSTS, part, self._most(by), by)

    def _cost_ratio(self, name: str, part: tuple[str, ...], by: Divisor, absent: str) -> Signal:
        then = self._cost(self.baseline, part, self._of(self.baseline, by.record), by, _THEN)
        return self._divided(name, self._cost_now(part, by), then, absent)

    def _ratio(self, name: str, record: str, narrowed: str = "", *, by: Divisor = BYTES, absent: str) -> Signal:
        now, then = (self._of(of, record, narrowed) for of in (ANY_HOSTS, self.baseline))
        return self._divided(name, self._with_row(now, by), f"{then}{_THEN} > 0", absent)

    def _event_ratio(self, name: str, part: str, whole: str, absent: str) -> Signal:
        """The ratio of two events of one group; 0 is of an event that isn't counted."""

        def of(matchers: str, every: str, at: str = "") -> str:
            divided, divisor = self._of(matchers, "events:rate", part, at), self._of(every, "events:rate", whole, at)
            return f"{divided} / ignoring (event) ({divisor} > 0) > 0"

        # The platform of virtual servers is that of their rows.
        now = of(ANY_HOSTS if self is HOST else _HOSTS, _HOSTS)
        return self._divided(name, self._with_row(now, BYTES), of(self.baseline, self.baseline, _THEN), absent)

    def _with_row(self, expr: str, by: Divisor) -> str:
        return expr if self is HOST else f"{expr} and on (host, platform, vserver) {self._most(by)}"

    def _divided(self, name: str, now: str, then: str, absent: str) -> Signal:
        """A value divided by the baseline's, now or at an earlier time."""
        return Signal(name, f"({now}) / on () group_left () max({then})", units.NoUnit, "", absent, decimals=2)


_OF_HOST = f'{_BASE_HOST}, platform="$base_platform"'

HOST = Level("host", "host, platform", ANY_HOSTS, _OF_HOST, "{{host}} ({{platform}})")
VSERVER = Level(
    "vserver",
    "host, platform, vserver, role",
    f'{ANY_HOSTS}, vserver=~"$vserver"',
    f'{_OF_HOST}, vserver="$base_vserver"',
    "{{host}}: {{vserver}}",
)
