"""The output of nbench 2.2.3, the BYTEmark for Linux: the index of each test, and the three composites.

    TEST                : Iterations/sec.  : Old Index   : New Index
                        :                  : Pentium 90* : AMD K6/233*
    --------------------:------------------:-------------:------------
    NUMERIC SORT        :          1165.6  :      29.89  :       9.82
    ...
    ==============================LINUX DATA BELOW===============================
    MEMORY INDEX        : 21.768

As in Fisher's tables, a test's index is relative to the Pentium 90, and a composite to the AMD K6/233.
"""

from __future__ import annotations

import re

from lab.suites.rows import HIGHER, INDEX, OutputError, Row, Test, lines, number

SUITE = "nbench"
GROUP = "index"
NAMES = {
    "NUMERIC SORT": "Numeric Sort",
    "STRING SORT": "String Sort",
    "BITFIELD": "Bitfield",
    "FP EMULATION": "Floating Point Emulation",
    "FOURIER": "Fourier Coefficients",
    "ASSIGNMENT": "Assignment",
    "IDEA": "IDEA Encryption",
    "HUFFMAN": "Huffman Compression",
    "NEURAL NET": "Neural Net",
    "LU DECOMPOSITION": "LU Decomposition",
}
COMPOSITES = ("Memory Index", "Integer Index", "Floating-Point Index")
_PRINTED = {name.upper(): name for name in COMPOSITES}

_TEST = re.compile(r"([A-Z ]*?) *: +([0-9.e+-]+) +: +([0-9.]+) +: +([0-9.]+)", re.ASCII)
_INDEX = re.compile(r"(MEMORY INDEX|INTEGER INDEX|FLOATING-POINT INDEX) *: ([0-9.]+)", re.ASCII)
_NAME = re.compile(r"([A-Z ]+?) *:", re.ASCII)
_ON_LINUX = "LINUX DATA BELOW"


def parse(text: str) -> tuple[Row, ...]:
    """The indexes; raises `OutputError`. A value that nbench itself calls uncertain counts like the others."""
    found: dict[str, float] = {}
    name, on_linux = "", False
    for line, whole in lines(text):
        content = whole.strip()
        if test := _TEST.fullmatch(content):
            # A warning may appear between a test's name and its values.
            name = test[1].strip() or name
            if name not in NAMES:
                raise OutputError(line, content, f"{name!r} is not a test of nbench")
            _keep(found, NAMES[name], test[3], line, content)
        elif _ON_LINUX in content:
            on_linux = True
        elif index := _INDEX.fullmatch(content):
            if on_linux:  # above, an integer index of other tests is relative to the Pentium 90
                _keep(found, _PRINTED[index[1]], index[2], line, content)
        elif begun := _NAME.fullmatch(content):
            name = begun[1]
    return tuple(Row(Test(SUITE, GROUP, name, INDEX, HIGHER), value) for name, value in found.items())


def _keep(found: dict[str, float], name: str, text: str, line: int, content: str) -> None:
    value = number(text)
    if value is None or value <= 0:
        raise OutputError(line, content, f"{text} is not an index")
    if name in found:
        raise OutputError(line, content, f"{name} is there twice: give one run at a time")
    found[name] = value
