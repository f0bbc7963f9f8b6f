"""Colours. Severity has a scale of its own, which no series takes that has a fixed colour.

Series that vary are coloured by Grafana, by name, so that a guest has one colour on all panels. Of Grafana's modes only
`palette-classic-by-name` does so, and its palette has reds and yellows too. It gives several names one colour, or two
that hardly differ: where areas lie on each other (dashboards/waiting.py) colours go by order instead.

Each fixed colour but `WARNING` is one that white text can be read on (WCAG's 4.5:1), and one that a line can be seen in
(3:1) on the panels of both of Grafana's themes; tests/dashboards/test_palette.py computes it.
"""

from __future__ import annotations

FINE = "#1F7C3E"
WARNING = "#FFB81C"  # a ground for dark text, never a line
CRITICAL = "#D31E36"
NO_DATA = "#666D76"
SEVERITY = {"OK": FINE, "warning": WARNING, "critical": CRITICAL, "no data": NO_DATA}
"""Words of severity and the ground each stands on, in tiles and cells."""

BLUE = "#1E69D1"
CYAN = "#07768D"
VIOLET = "#854DD3"
MAGENTA = "#BC2F98"

PLAIN = "text"
"""The theme's own text colour: limits, thresholds, and flags that are no severity."""

NONE = "transparent"

SINGLE = BLUE
"""The one series of a graph."""

GUESTS = BLUE
HOST = MAGENTA

CAUSES = {
    "met": FINE,  # the objective: no cause is needed
    "self": BLUE,
    "neighbour": MAGENTA,
    "load": CYAN,
    "hypervisor": VIOLET,
    "unknown": PLAIN,  # evidence was looked for and not found, unlike no data
}
"""Causes of a breach, as alerts name them, and in their place `met`."""

REASONS = {
    "neighbour": CAUSES["neighbour"],
    "self": CAUSES["self"],
    "cap": CYAN,
    "host": CAUSES["hypervisor"],
    "unknown": CAUSES["unknown"],
}
"""Reasons of waiting for a CPU, as far as they have a colour of their own: that of the cause they are evidence for."""

SERIES = (BLUE, CYAN, VIOLET, MAGENTA)
