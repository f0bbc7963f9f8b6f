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

import math
import re
from collections.abc import Mapping

from lab.suites.rows import HIGHER, INDEX, OutputError, Row, Test, lines, number

SUITE = "nbench"
GROUP = "index"
# In nbench's order: the printed name, the study's name, and iterations per second of the Pentium 90 and the AMD K6/233
# (bindex and lx_bindex in nbench0.h).
_TESTS = (
    ("NUMERIC SORT", "Numeric Sort", 38.993, 118.73),
    ("STRING SORT", "String Sort", 2.238, 14.459),
    ("BITFIELD", "Bitfield", 5829704, 27910000),
    ("FP EMULATION", "Floating Point Emulation", 2.084, 9.0314),
    ("FOURIER", "Fourier Coefficients", 879.278, 1565.5),
    ("ASSIGNMENT", "Assignment", 0.2628, 1.0132),
    ("IDEA", "IDEA Encryption", 65.382, 220.21),
    ("HUFFMAN", "Huffman Compression", 36.062, 112.93),
    ("NEURAL NET", "Neural Net", 0.6225, 1.4799),
    ("LU DECOMPOSITION", "LU Decomposition", 19.3031, 26.732),
)
NAMES = {printed: name for printed, name, _, _ in _TESTS}
_PENTIUM_OF_AMD = {name: pentium / amd for _, name, pentium, amd in _TESTS}
COMPOSITES = {
    "Memory Index": ("String Sort", "Bitfield", "Assignment"),
    "Integer Index": ("Numeric Sort", "Floating Point Emulation", "IDEA Encryption", "Huffman Compression"),
    "Floating-Point Index": ("Fourier Coefficients", "Neural Net", "LU Decomposition"),
}
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


def composites(indexes: Mapping[str, float]) -> dict[str, float]:
    """The composites of tests' indexes by name, if all of their tests exist.

    nbench0.c: the geometric mean of iterations per second relative to the AMD K6/233. An index is relative to the
    Pentium 90, so the mean of indexes is divided by the mean of the AMD's speed relative to the Pentium.
    """
    return {
        composite: math.prod(indexes[name] * _PENTIUM_OF_AMD[name] for name in of) ** (1 / len(of))
        for composite, of in COMPOSITES.items()
        if all(name in indexes for name in of)
    }


def _keep(found: dict[str, float], name: str, text: str, line: int, content: str) -> None:
    value = number(text)
    if value is None or value <= 0:
        raise OutputError(line, content, f"{text} is not an index")
    if name in found:
        raise OutputError(line, content, f"{name} is there twice: give one run at a time")
    found[name] = value
