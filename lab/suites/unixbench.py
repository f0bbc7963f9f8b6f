"""The report of UnixBench 5 and 6 (its `Run`, as text): the index of each test.

    4 CPUs in system; running 1 parallel copy of tests

    Pipe Throughput                            1135478.8 lps   (10.0 s, 7 samples)

    System Benchmarks Index Values               BASELINE       RESULT    INDEX
    Pipe Throughput                               12440.0    1135478.8    912.8
                                                                       ========
    System Benchmarks Index Score                                         912.8

A test's index is its result / a SPARCstation 20-61's, times 10; the score is their geometric mean. If a report has
several numbers of copies, the values are from the single copy. Tests without a baseline have no row.
"""

from __future__ import annotations

import re

from lab.suites.rows import HIGHER, INDEX, OutputError, Row, Test, lines, number

SUITE = "unixbench"
CPU, COMMUNICATION = "cpu_benchmarks", "inter_process_communication_benchmarks"
FILES, SCORE, OTHER = "filesystem_benchmarks", "score", "other_benchmarks"
# Fisher's groups; tests that only version 5 has are in the group of similar tests.
GROUPS = {
    "dhrystone 2 using register variables": CPU,
    "double-precision whetstone": CPU,
    "execl throughput": CPU,
    "pipe throughput": COMMUNICATION,
    "pipe-based context switching": COMMUNICATION,
    "process creation": COMMUNICATION,
    "system call overhead": COMMUNICATION,
}

_COPIES = re.compile(r"\d+ CPUs? in system; running (\d{1,6}) parallel cop(?:y|ies) of tests", re.ASCII)
_HEAD = re.compile(r".+ (?:Index Values|Partial Index)\s+BASELINE\s+RESULT\s+INDEX")
_TEST = re.compile(r"(.{1,60}?)\s+([0-9.]+|---)\s+([0-9.]+)\s+([0-9.]+|---)", re.ASCII)
_SCORE = re.compile(r"(.{1,60} Index Score(?: \(Partial Only\))?)\s+([0-9.]+)", re.ASCII)


def parse(text: str) -> tuple[Row, ...]:
    rows: list[Row] = []
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
            rows += _row(line, content)
    if of_one != 1:
        raise OutputError(line, "", f"{of_one} runs of a single copy instead of one: use `Run -c 1`, one at a time")
    if len({row.test for row in rows}) < len(rows):
        raise OutputError(line, "", "a test is there twice")
    return tuple(rows)


def _row(line: int, content: str) -> list[Row]:
    if score := _SCORE.fullmatch(content):
        name, text, group = score[1], score[2], SCORE
    elif test := _TEST.fullmatch(content):
        name, text, group = test[1], test[4], _group(test[1])
        if text == "---":
            return []
    else:
        raise OutputError(line, content, "is no line of UnixBench's index")
    value = number(text)
    if value is None:
        raise OutputError(line, content, f"{text} is not a number")
    return [Row(Test(SUITE, group, name, INDEX, HIGHER), value)] if value > 0 else []


def _group(name: str) -> str:
    folded = name.casefold()
    if folded.startswith("shell scripts"):
        return COMMUNICATION
    return FILES if folded.startswith("file ") else GROUPS.get(folded, OTHER)
