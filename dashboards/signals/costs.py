"""What a byte and a request cost, and which misses make it so, as in Menon et al. 2005: against a chosen baseline.

The cost ratio of two configurations is their instruction ratio / their throughput ratio; a configuration is a host with
all its guests, or one virtual server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, Signal

_NO_BASELINE = "Not known of the baseline: choose another one under Baseline."
_NO_BYTES = "Bytes are not counted, or below 10 kB/s: docs/vocabulary.md, Network and disk."
_NO_REQUESTS = "No sensor counts requests, or below 0.5/s: docs/sensors.md."
_NO_EVENTS = "No events and bytes of the same host: Caches and events says why events are missing."
_RATIO = "Divided by that of the baseline: 2 is twice as much."


@dataclass(frozen=True)
class Level:
    """What costs are of: the first part of their records' names, and who is meant in them."""

    name: str
    chosen: str
    baseline: str
    legend: str

    def _absolute(self, record: str) -> str:
        return f"{self.name}:{record}{{{self.chosen}}}"

    def _relative(self, record: str) -> str:
        baseline = f"{self.name}:{record}{{{self.baseline}}} offset $base_time"
        return f"{self._absolute(record)} / on () group_left () (max({baseline}) > 0)"

    def absolute(self, name: str, record: str, unit: str, description: str, absent: str) -> Signal:
        """A record as it is."""
        return Signal(name, self._absolute(record), unit, description, absent, legend=self.legend)

    def relative(self, name: str, record: str, description: str) -> Signal:
        """A record divided by the baseline's, now or so much earlier."""
        return Signal(
            name,
            self._relative(record),
            units.NoUnit,
            f"{description} {_RATIO}",
            _NO_BASELINE,
            legend=self.legend,
            decimals=2,
        )

    @property
    def traffic(self) -> Signal:
        """Bytes received and sent."""
        return self.absolute(
            "Throughput", "traffic:rate", units.BytesPerSecondSI, "Bytes received and sent per second.", _NO_BYTES
        )

    @property
    def requests(self) -> Signal:
        """Requests answered."""
        return self.absolute("Requests", "requests:rate", units.RequestsPerSecond, "Requests per second.", _NO_REQUESTS)

    @property
    def cpu_per_byte(self) -> Signal:
        """CPU seconds, which are known everywhere."""
        return self.absolute(
            "CPU per byte",
            "cpu_per_byte:seconds",
            units.Seconds,
            "CPU time per byte received or sent. It includes all that was done: compare under the same load.",
            _NO_BYTES,
        )

    @property
    def instructions_per_byte(self) -> Signal:
        """The study's own measure."""
        return self.absolute(
            "Instructions per byte",
            "instructions_per_byte:ratio",
            units.NoUnit,
            "Instructions per byte received or sent. They include all that was done: compare under the same load.",
            _NO_EVENTS,
        )

    def of_bytes(self) -> list[Signal]:
        """The cost of a byte: the highest ratios first, and what they are of."""
        return [
            replace(
                self.relative("Cost ratio", "instructions_per_byte:ratio", "Instructions per byte."),
                absent="Neither events nor bytes are known of both: choose another under Baseline.",
            ),
            self.relative("Cost (CPU)", "cpu_per_byte:seconds", "CPU time per byte."),
            self.relative("Instr. ratio", "instructions:rate", "Instructions per second."),
            self.relative("Traffic ratio", "traffic:rate", "Bytes per second."),
            self.relative("Cost (cycles)", "cycles_per_byte:ratio", "CPU cycles per byte."),
            replace(self.instructions_per_byte, name="Instr./byte", decimals=1),
            replace(self.cpu_per_byte, name="CPU/byte", decimals=1),
        ]

    def of_requests(self) -> list[Signal]:
        """The cost of a request, likewise."""
        cpu, instructions, cycles = "CPU time", "Instructions", "CPU cycles"
        return [
            replace(
                self.relative("Cost ratio", "instructions_per_request:ratio", f"{instructions} per request."),
                absent="No requests are known of the baseline: choose another under Baseline, or see docs/sensors.md.",
            ),
            self.relative("Cost (CPU)", "cpu_per_request:seconds", f"{cpu} per request."),
            self.relative("Rate ratio", "requests:rate", "Requests per second."),
            self.relative("Cost (cycles)", "cycles_per_request:ratio", f"{cycles} per request."),
            self.absolute(
                "Instr./request",
                "instructions_per_request:ratio",
                units.Short,
                f"{instructions} per request.",
                _NO_REQUESTS,
            ),
            self.absolute("CPU/request", "cpu_per_request:seconds", units.Seconds, f"{cpu} per request.", _NO_REQUESTS),
        ]

    def of_misses(self) -> list[Signal]:
        """Miss rates, which are misses / instructions, and the misses themselves."""
        rates = [
            self.relative(f"{name} rate", f"{record}_misses_per_instruction:ratio", f"{name} misses per instruction.")
            for name, record in _MISSES.items()
        ]
        misses = [
            self.relative(f"{name} misses", f"{record}_misses:rate", f"{name} misses per second.")
            for name, record in _MISSES.items()
        ]
        first, *others = rates
        absent = "No misses are known of the baseline: choose another, or see Caches and events for why."
        return [
            replace(first, absent=absent),
            *others,
            *misses,
            self.relative("IPC", "ipc:ratio", "Instructions per cycle."),
        ]


_MISSES = {"LLC": "llc", "dTLB": "dtlb", "iTLB": "itlb"}
_OF_HOST = 'host="$base_host", platform="$base_platform"'

HOST = Level("host", ANY_HOSTS, _OF_HOST, "{{host}} ({{platform}})")
VSERVER = Level(
    "vserver", f'{ANY_HOSTS}, vserver=~"$vserver"', f'{_OF_HOST}, vserver="$base_vserver"', "{{host}}: {{vserver}}"
)
