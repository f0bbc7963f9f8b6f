"""Colours that people with any colour vision tell apart: Okabe and Ito's set (https://jfly.uni-koeln.de/color/)."""

SKY_BLUE = "#56B4E9"
BLUE = "#0072B2"
ORANGE = "#E69F00"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
GREY = "#999999"

CALM = SKY_BLUE
HIGH = VERMILLION
HOST = ORANGE
GUESTS = BLUE
LIMIT = GREY
JOBS = {
    "xentop": ORANGE,
    "vestat": VERMILLION,
    "perf": PURPLE,
    "node": SKY_BLUE,
    "prometheus": BLUE,
    "alertmanager": GREY,
}
