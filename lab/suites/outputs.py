"""The output of UnixBench, nbench and stress-ng; lmbench's is in lab.suites.lmbench.

Each parser raises `OutputError`. As in Fisher's tables, an index of nbench is relative to the Pentium 90, a composite
to the AMD K6/233, and one of UnixBench to ten times a SPARCstation 20-61.
"""

import re
from collections.abc import Iterator

import yaml

from lab.suites import lmbench
from lab.suites.rows import HIGHER, INDEX, TESTS, OutputError, Row, Test, number, once

UNIXBENCH, NBENCH, STRESS_NG = "unixbench", "nbench", "stress-ng"
BOGO_OPERATIONS = "bogo_operations_per_second"
SCORE, FILES, OTHER = "score", "filesystem_benchmarks", "other_benchmarks"
COMPOSITES = tuple(TESTS[NBENCH]["composites"].values())
_GROUPS = {
    suite: {name: group for group, names in TESTS[suite].items() for name in names} for suite in (UNIXBENCH, STRESS_NG)
}
_COPIES = re.compile(r"^\d+ CPUs? in system; running (\d+) parallel cop(?:y|ies) of tests$", re.ASCII | re.MULTILINE)
_INDEXES = re.compile(
    r"^(?:(?P<test>\S.*?) +(?:[\d.]+|---) +[\d.]+|(?P<score>.+ Index Score(?: \(Partial Only\))?)) +[\d.]+$",
    re.ASCII | re.MULTILINE,
)
_NBENCH_TEST = re.compile(r"([A-Z ]*?) *: +[\d.e+-]+ +: +([\d.]+) +: +[\d.]+", re.ASCII)
_NBENCH_NAME = re.compile(r"([A-Z -]+?) *:(?: ([\d.]+))?", re.ASCII)
_ON_LINUX = "LINUX DATA BELOW"


def unixbench(text: str) -> tuple[Row, ...]:
    """The indexes of a report of UnixBench 5 or 6 (its `Run`, as text), and their geometric mean.

    4 CPUs in system; running 1 parallel copy of tests

    System Benchmarks Index Values               BASELINE       RESULT    INDEX
    Pipe Throughput                               12440.0    1135478.8    912.8
                                                                       ========
    System Benchmarks Index Score                                         912.8

    If there are several numbers of copies, the values are from the single copy. Tests without a baseline have no row.
    """
    _, *parts = _COPIES.split(text)
    single = [of for copies, of in zip(parts[::2], parts[1::2], strict=True) if copies == "1"]
    if len(single) != 1:
        raise OutputError(f"{len(single)} runs of a single copy instead of one: use `Run -c 1`, one at a time")
    return once(
        Row(Test(UNIXBENCH, SCORE if line["score"] else _group(name), name, INDEX, HIGHER), number(line[0]))
        for line in _INDEXES.finditer(single[0])
        if (name := line["score"] or line["test"])
    )


def _group(name: str) -> str:
    """Fisher's group of a test of UnixBench."""
    folded = name.casefold()
    if folded.startswith("shell scripts"):
        return "inter_process_communication_benchmarks"
    return FILES if folded.startswith("file ") else _GROUPS[UNIXBENCH].get(folded, OTHER)


def nbench(text: str) -> tuple[Row, ...]:
    """The indexes of nbench 2.2.3, the BYTEmark for Linux. A value that it calls uncertain counts like the others.

    TEST                : Iterations/sec.  : Old Index   : New Index
    NUMERIC SORT        :          1165.6  :      29.89  :       9.82
    ==============================LINUX DATA BELOW===============================
    MEMORY INDEX        : 21.768
    """
    # Above that line, an integer index of other tests is relative to the Pentium 90.
    above, _, below = text.partition(_ON_LINUX)
    return once(Row(Test(NBENCH, INDEX, name, INDEX, HIGHER), value) for name, value in _nbench(above, below))


def _nbench(above: str, below: str) -> Iterator[tuple[str, float]]:
    name = ""
    for line in map(str.strip, above.splitlines()):
        if test := _NBENCH_TEST.fullmatch(line):
            name = test[1].strip() or name  # a warning may appear between a test's name and its values
            if name not in TESTS[NBENCH]["tests"]:
                raise OutputError(f"{name!r} is not a test of nbench")
            yield TESTS[NBENCH]["tests"][name], number(test[2])
        elif begun := _NBENCH_NAME.fullmatch(line):
            name = begun[1]
    for line in map(str.strip, below.splitlines()):
        if (index := _NBENCH_NAME.fullmatch(line)) and index[1] in TESTS[NBENCH]["composites"] and index[2]:
            yield TESTS[NBENCH]["composites"][index[1]], number(index[2])


def stress_ng(text: str) -> tuple[Row, ...]:
    """Operations per second of each stressor, from the metrics that `--yaml` writes.

    metrics:
        - stressor: fork
          bogo-ops-per-second-usr-sys-time: 2595.346544
          bogo-ops-per-second-real-time: 2584.362475

    An operation ("bogo op") is the unit that a stressor repeats, which may change with stress-ng's version: these
    values compare environments, never suites. The rate is in real time, as CPU time excludes the time that
    virtualisation takes from a program. A stressor without operations has no row.
    """
    try:
        of = yaml.safe_load(text)
        stressors = [(one["stressor"], one["bogo-ops-per-second-real-time"]) for one in of["metrics"] or ()]
    except (yaml.YAMLError, TypeError, LookupError):
        raise OutputError("stress-ng's metrics are missing: use its --yaml, of one run at a time") from None
    return once(
        Row(Test(STRESS_NG, _GROUPS[STRESS_NG].get(name, "other"), name, BOGO_OPERATIONS, HIGHER), number(str(rate)))
        for name, rate in stressors
    )


def parse(text: str) -> tuple[Row, ...]:
    """The rows of a run in the output of any suite, recognised by its text; raises `OutputError`."""
    if "BYTEMARK" in text.upper():  # without its title, "ORIGINAL BYTEMARK RESULTS" is still there
        return nbench(text)
    if "BYTE UNIX Benchmarks" in text or "in system; running" in text:
        return unixbench(text)
    if re.search(r"^metrics:", text, re.MULTILINE):
        return stress_ng(text)
    if "[lmbench" in text:
        return lmbench.parse(text)
    first = next((line for line in text.splitlines() if line.strip()), "")
    raise OutputError(f"{first[:80]!r} begins no results of lmbench, UnixBench, nbench or stress-ng (--yaml)")
