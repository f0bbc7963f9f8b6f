"""Costs of a byte and a request, and the misses behind them, as in Menon et al. 2005: against a chosen baseline.

The cost ratio of two configurations is their instruction ratio / their throughput ratio; a configuration is a host with
all its guests, or one virtual server.
"""

from __future__ import annotations

from typing import NamedTuple

from grafana_foundation_sdk.models import units

from dashboards.signals import ANY_HOSTS, Signal

_NO_BYTES = "Bytes are not counted, or below 10 kB/s: docs/vocabulary.md, Network and disk."
_NO_REQUESTS = "No sensor counts requests, or below 0.5/s: docs/sensors.md."
_NO_EVENTS = "No events and bytes of the same host: Caches and events says why events are missing."
_SAME_LOAD = "all that was done: compare under the same load."


class Level(NamedTuple):
    """Subject of costs: the first part of their records' names, and its description in texts."""

    name: str
    chosen: str
    baseline: str
    legend: str

    def _absolute(
        self, name: str, record: str, unit: str, description: str = "", absent: str = "", *, decimals: int | None = None
    ) -> Signal:
        """A record as recorded."""
        query = f"{self.name}:{record}{{{self.chosen}}}"
        return Signal(name, query, unit, description, absent, legend=self.legend, decimals=decimals)

    def _relative(self, columns: dict[str, str], absent: str) -> list[Signal]:
        """Records by title, divided by the baseline's, now or at an earlier time."""
        return [
            Signal(
                name,
                f"{self.name}:{record}{{{self.chosen}}} / on () group_left () "
                f"(max({self.name}:{record}{{{self.baseline}}} offset $base_time) > 0)",
                units.NoUnit,
                absent=absent,
                decimals=2,
            )
            for name, record in columns.items()
        ]

    @property
    def traffic(self) -> Signal:
        """Bytes received and sent."""
        return self._absolute(
            "Throughput", "traffic:rate", units.BytesPerSecondSI, "Bytes received and sent per second.", _NO_BYTES
        )

    @property
    def requests(self) -> Signal:
        """Requests answered."""
        return self._absolute("Requests", "requests:rate", units.RequestsPerSecond)

    @property
    def over_time(self) -> list[Signal]:
        """The study's measure, CPU seconds, which every platform has, and traffic."""
        return [
            self._absolute(
                "Instructions per byte",
                "instructions_per_byte:ratio",
                units.NoUnit,
                f"Instructions per byte received or sent. They include {_SAME_LOAD}",
                _NO_EVENTS,
            ),
            self._absolute(
                "CPU per byte",
                "cpu_per_byte:seconds",
                units.Seconds,
                f"CPU time per byte received or sent. It includes {_SAME_LOAD}",
                _NO_BYTES,
            ),
            self.traffic,
        ]

    def of_bytes(self) -> list[Signal]:
        """The cost of a byte: the highest ratios first, and their parts."""
        return [
            *self._relative(
                {
                    "Cost ratio": "instructions_per_byte:ratio",
                    "Cost (CPU)": "cpu_per_byte:seconds",
                    "Instr. ratio": "instructions:rate",
                    "Traffic ratio": "traffic:rate",
                    "Cost (cycles)": "cycles_per_byte:ratio",
                },
                "Neither events nor bytes are known of both: choose another under Baseline.",
            ),
            self._absolute("Instr./byte", "instructions_per_byte:ratio", units.NoUnit, decimals=1),
            self._absolute("CPU/byte", "cpu_per_byte:seconds", units.Seconds, decimals=1),
        ]

    def of_requests(self) -> list[Signal]:
        """The cost of a request, in the same order."""
        return [
            *self._relative(
                {
                    "Cost ratio": "instructions_per_request:ratio",
                    "Cost (CPU)": "cpu_per_request:seconds",
                    "Rate ratio": "requests:rate",
                    "Cost (cycles)": "cycles_per_request:ratio",
                },
                "No requests are known of the baseline: choose another under Baseline, or see docs/sensors.md.",
            ),
            self._absolute("Instr./request", "instructions_per_request:ratio", units.Short),
            self._absolute("CPU/request", "cpu_per_request:seconds", units.Seconds),
        ]

    def of_misses(self) -> list[Signal]:
        """Miss rates (misses / instructions), and the misses themselves."""
        misses = {"LLC": "llc", "dTLB": "dtlb", "iTLB": "itlb"}
        return self._relative(
            {
                **{f"{name} rate": f"{record}_misses_per_instruction:ratio" for name, record in misses.items()},
                **{f"{name} misses": f"{record}_misses:rate" for name, record in misses.items()},
                "IPC": "ipc:ratio",
            },
            "No misses are known of the baseline: choose another, or see Caches and events for why.",
        )


_OF_HOST = 'host="$base_host", platform="$base_platform"'

HOST = Level("host", ANY_HOSTS, _OF_HOST, "{{host}} ({{platform}})")
VSERVER = Level(
    "vserver", f'{ANY_HOSTS}, vserver=~"$vserver"', f'{_OF_HOST}, vserver="$base_vserver"', "{{host}}: {{vserver}}"
)
