"""The output of UnixBench, nbench and stress-ng; lmbench's is in lab.suites.lmbench.

Each parser raises `OutputError`. As in Fisher's tables, an index of nbench is relative to the Pentium 90, a composite
to the AMD K6/233, and one of UnixBench to ten times a SPARCstation 20-61.
"""

import re

from lab.suites.rows import HIGHER, INDEX, TESTS, OutputError, Row, Test, keep, lines, measured, rows

UNIXBENCH, NBENCH, STRESS_NG = "unixbench", "nbench", "stress-ng"
BOGO_OPERATIONS = "bogo_operations_per_second"
SCORE, FILES, OTHER = "score", "filesystem_benchmarks", "other_benchmarks"
COMPOSITES = tuple(TESTS[NBENCH]["composites"].values())
_GROUPS = {
    suite: {name: group for group, names in TESTS[suite].items() for name in names} for suite in (UNIXBENCH, STRESS_NG)
}
_COPIES = re.compile(r"\d+ CPUs? in system; running (\d{1,6}) parallel cop(?:y|ies) of tests", re.ASCII)
_HEAD = re.compile(r".+ (?:Index Values|Partial Index)\s+BASELINE\s+RESULT\s+INDEX")
_TEST = re.compile(r"(.{1,60}?)\s+([0-9.]+|---)\s+([0-9.]+)\s+([0-9.]+|---)", re.ASCII)
_SCORE = re.compile(r"(.{1,60} Index Score(?: \(Partial Only\))?)\s+([0-9.]+)", re.ASCII)
_NBENCH_TEST = re.compile(r"([A-Z ]*?) *: +([0-9.e+-]+) +: +([0-9.]+) +: +([0-9.]+)", re.ASCII)
_NBENCH_INDEX = re.compile(r"([A-Z-]+ INDEX) *: ([0-9.]+)", re.ASCII)
_NBENCH_NAME = re.compile(r"([A-Z ]+?) *:", re.ASCII)
_STRESSOR = re.compile(r"- stressor: ([a-z0-9-]{1,40})", re.ASCII)
_RATE = re.compile(r"bogo-ops-per-second-real-time: (\S+)")


def unixbench(text: str) -> tuple[Row, ...]:
    """The indexes of a report of UnixBench 5 or 6 (its `Run`, as text), and their geometric mean.

    4 CPUs in system; running 1 parallel copy of tests

    System Benchmarks Index Values               BASELINE       RESULT    INDEX
    Pipe Throughput                               12440.0    1135478.8    912.8
                                                                       ========
    System Benchmarks Index Score                                         912.8

    If there are several numbers of copies, the values are from the single copy. Tests without a baseline have no row.
    """
    found: dict[Test, float] = {}
    copies, of_one, in_table, line = 0, 0, False, 0
    for line, whole in lines(text):
        content = whole.strip()
        if running := _COPIES.fullmatch(content):
            copies, in_table = int(running[1]), False
            of_one += copies == 1
        elif _HEAD.fullmatch(content):
            in_table = True
        elif in_table and not content:
            in_table = False
        elif in_table and copies == 1 and content.strip("="):
            if score := _SCORE.fullmatch(content):
                name, group, index = score[1], SCORE, score[2]
            elif test := _TEST.fullmatch(content):
                name, group, index = test[1], _group(test[1]), test[4]
            else:
                raise OutputError(line, content, "is no line of UnixBench's index")
            if index != "---" and (value := measured(index, line, content)) > 0:
                keep(found, Test(UNIXBENCH, group, name, INDEX, HIGHER), value, line, content)
    if of_one != 1:
        raise OutputError(line, "", f"{of_one} runs of a single copy instead of one: use `Run -c 1`, one at a time")
    return rows(found)


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
    found: dict[Test, float] = {}
    name, on_linux, known = "", False, TESTS[NBENCH]
    for line, whole in lines(text):
        content = whole.strip()
        if test := _NBENCH_TEST.fullmatch(content):
            name = test[1].strip() or name  # a warning may appear between a test's name and its values
            if name not in known["tests"]:
                raise OutputError(line, content, f"{name!r} is not a test of nbench")
            named, index = known["tests"][name], test[3]
        elif "LINUX DATA BELOW" in content:
            on_linux = True
            continue
        # Above that line, an integer index of other tests is relative to the Pentium 90.
        elif (composite := _NBENCH_INDEX.fullmatch(content)) and composite[1] in known["composites"] and on_linux:
            named, index = known["composites"][composite[1]], composite[2]
        else:
            if begun := _NBENCH_NAME.fullmatch(content):
                name = begun[1]
            continue
        if (value := measured(index, line, content)) <= 0:
            raise OutputError(line, content, f"{index} is not an index")
        keep(found, Test(NBENCH, "index", named, INDEX, HIGHER), value, line, content)
    return rows(found)


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
    found: dict[Test, float] = {}
    seen: set[str] = set()
    stressor, in_metrics = "", False
    for line, whole in lines(text):
        if whole and not whole.startswith((" ", "-", ".", "#")):
            in_metrics, stressor = whole == "metrics:", ""
        content = whole.strip() if in_metrics else ""
        if named := _STRESSOR.fullmatch(content):
            stressor = named[1]
            if stressor in seen:
                raise OutputError(line, content, "is there twice: give one run at a time")
            seen.add(stressor)
        elif rate := _RATE.fullmatch(content):
            if not stressor:
                raise OutputError(line, content, "is of no stressor")
            test = Test(STRESS_NG, _GROUPS[STRESS_NG].get(stressor, "other"), stressor, BOGO_OPERATIONS, HIGHER)
            if (value := measured(rate[1], line, content)) > 0:
                keep(found, test, value, line, content)
    if not seen:
        raise OutputError(1, text.partition("\n")[0], "stress-ng's metrics are missing: use its --yaml")
    return rows(found)
