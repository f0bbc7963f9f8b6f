"""Colours. Severity has its own scale, which no series with a fixed colour uses.

Grafana colours other series by name, so a guest has the same colour on all panels. Only `palette-classic-by-name` does
that. Its palette also has reds and yellows, and may give several names the same or a similar colour. So stacked areas
(dashboards/waiting.py) are coloured by order instead.

Each fixed colour except `WARNING` is readable under white text (WCAG's 4.5:1) and visible as a line (3:1) on panels of
both Grafana themes; tests/dashboards/test_palette.py computes both.
"""

FINE = "#1F7C3E"
WARNING = "#FFB81C"  # a background for dark text, never a line
CRITICAL = "#D31E36"
NO_DATA = "#666D76"
SEVERITY = {"OK": FINE, "warning": WARNING, "critical": CRITICAL, "no data": NO_DATA}
"""Severity words and their backgrounds in tiles and cells."""

BLUE = "#1E69D1"
CYAN = "#07768D"
VIOLET = "#854DD3"
MAGENTA = "#BC2F98"

PLAIN = "text"
"""The theme's text colour: limits, thresholds, and flags without severity."""

NONE = "transparent"

SINGLE = BLUE
"""The only series of a graph."""

GUESTS = BLUE
HOST = MAGENTA

CAUSES = {
    "met": FINE,  # no cause needed
    "self": BLUE,
    "neighbour": MAGENTA,
    "load": CYAN,
    "hypervisor": VIOLET,
    "unknown": PLAIN,  # evidence was searched but not found, unlike no data
}
"""Causes of a breach, as alerts name them, or `met`."""

REASONS = {
    "neighbour": CAUSES["neighbour"],
    "self": CAUSES["self"],
    "cap": CYAN,
    "throttled": CYAN,
    "device": VIOLET,
    "host": CAUSES["hypervisor"],
    "unknown": CAUSES["unknown"],
}
"""Reasons of waiting with a colour of their own: the colour of the cause they indicate."""

SERIES = (BLUE, CYAN, VIOLET, MAGENTA)
