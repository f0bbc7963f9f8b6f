"""Beancounters, from the kernel's text to samples. Whole hosts' values are in tests/golden/openvz-*.prom."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.refusals import refusal
from virtscope.openvz import beancounters
from virtscope.openvz.beancounters import BeancounterReader, Families
from virtscope.toolkit.collect import SourceMalformed, SourceUnavailable
from virtscope.toolkit.exposition import Encoder

HOSTS = Path(__file__).resolve().parents[2] / "fixtures/openvz"

NO_LIMIT = 2**63 - 1
HEAD = f"Version: 2.5\n{'uid':>10}  {'resource':12}" + "".join(
    f" {column:>20}" for column in ("held", "maxheld", "barrier", "limit", "failcnt")
)


def row(resource: str, *values: int, uid: str = "") -> str:
    return f"{uid:>10}{':' if uid else ' '} {resource:12}" + "".join(f" {value:20}" for value in values)


def table(*rows: str, head: str = HEAD) -> str:
    return "\n".join([head, *rows, ""])


def exposed(text: str) -> Mapping[tuple[str, str, str], float]:
    """Every sample of a table: by name without openvz_beancounter_, ctid and resource."""
    samples = [sample for family in Families().of(beancounters.parse(text)) for sample in family.samples]
    return {
        (each.name.removeprefix("openvz_beancounter_"), each.labels["ctid"], each.labels["resource"]): each.value
        for each in samples
        if "ctid" in each.labels
    }


def page(text: str) -> str:
    return "\n" + Encoder().text(Families().of(beancounters.parse(text))).decode()


def fixture(host: str, file: str = "bc/resources") -> str:
    return (HOSTS / host / "proc" / file).read_text()


def test_both_files_give_the_same_but_for_resources_that_only_one_knows() -> None:
    for host in ("i386-2.6.18-cycles", "x86_64-2.6.32-nanoseconds", "virtuozzo7-uuids"):
        new, old = exposed(fixture(host)), exposed(fixture(host, "user_beancounters"))
        assert {key: value for key, value in new.items() if key[2] != "swappages"} == old, host
        assert not any(resource == "dummy" for *_, resource in old)


def test_resources_with_a_size_are_in_bytes_and_the_others_and_unknown_ones_counts() -> None:
    sizes = {"kmemsize": 1, "dcachesize": 1, "othersockbuf": 1, "dgramrcvbuf": 1, "swappages": 4096}
    for resource, size in {**sizes, **dict.fromkeys(("numfile", "numiptent", "quantumfoam"), 0)}.items():
        unit, factor = ("_bytes", size) if size else ("", 1)
        counted = {f"held{unit}": 1, f"maxheld{unit}": 2, f"barrier{unit}": 3, f"limit{unit}": 4}
        expected = {(name, "101", resource): value * factor for name, value in counted.items()}
        found = exposed(table(row(resource, 1, 2, 3, 4, 5, uid="101")))
        assert found == expected | {("failures_total", "101", resource): 5}


def test_uids_of_up_to_64_characters_with_blanks_around_them() -> None:
    for uid in ("101:", "101: ", "101:  ", "      101:", f"{'u' * 64}:"):
        (found,) = beancounters.parse(f"{HEAD}\n{uid}kmemsize 1 2 3 4 5\n numproc 6 7 8 9 0\n").containers
        assert (found.ctid, found.values[0], found.values[4]) == (uid.strip(" :"), (1,), (6,))
    said = str(refusal(SourceMalformed, beancounters.parse, GOOD.replace("       101:", f"{'u' * 65}:")))
    assert "no uid where one should be" in said


def test_other_versions_are_read_and_shown() -> None:
    text = table(row("numproc", 1, 2, 3, 4, 5, uid="7"), head=HEAD.replace("2.5", "3.0"))
    assert exposed(text)["held", "7", "numproc"] == 1
    assert '\nopenvz_beancounters_info{version="3.0"} 1.0\n' in page(text)
    assert beancounters.parse(HEAD + "\n") == ("2.5", (), 0, 0), "no container and not even the host"


def test_an_unknown_column_is_passed_over_and_counted_and_one_that_is_missing_costs_its_own_values() -> None:
    head = HEAD.replace("             barrier", "   novelty             barrier")
    text = f"{head}\n7: numproc 1 2 99 3 4 5\nnumfile 6 7 99 8 9 10\n"
    found = exposed(text)
    known = [("maxheld", "7", "numproc"), ("barrier", "7", "numproc"), ("failures_total", "7", "numfile")]
    assert [found[key] for key in known] == [2, 3, 10]
    assert "\nopenvz_beancounters_unknown_columns 1.0\n" in page(text)
    without = f"{HEAD.replace('barrier', '').replace('failcnt', '')}\n7: numproc 1 2 3\n"
    assert exposed(without) == {(name, "7", "numproc"): n for n, name in enumerate(("held", "maxheld", "limit"), 1)}


def test_of_what_comes_twice_a_column_is_not_guessed_and_a_container_taken_as_it_was_last() -> None:
    assert ("held", "101", "numproc") not in exposed(GOOD.replace("maxheld", "   held"))
    assert exposed(GOOD.replace("maxheld", "   held"))["barrier", "101", "numproc"] == 8
    text = table(row("numproc", 1, 1, 9, 9, 0, uid="7"), row("numproc", 2, 2, 9, 9, 0, uid="7"))
    assert exposed(text)["held", "7", "numproc"] == 2


GOOD = table(row("kmemsize", 1, 2, 3, 4, 5, uid="101"), row("numproc", 6, 7, 8, 9, 10), row("numfile", 1, 2, 3, 4, 55))


def test_malformed_text_is_refused_and_quoted() -> None:
    rows = row("numproc", 1, 2, 3, 4, 5, uid="101"), row("numfile", 1, 2, 3, 4, 5)
    for text, offending in (
        ("", "''"),
        ("cat: /proc/user_beancounters: Permission denied\n", "Permission denied"),
        (GOOD.replace("resource", "rescource"), "rescource"),
        (HEAD, "failcnt"),
        (table(row("numproc", 1, 2, 3, 4, uid="101"), rows[1]), "numproc"),
        (table("".join(rows)), "numfile"),
        (table(rows[0], row("numproc", 1, 2, 3, 4, 5)), "twice"),
        (table(rows[0], row("numfile", 1, -2, 3, 4, 5)), "-2"),
        (GOOD.replace(" 7 ", " \N{ARABIC-INDIC DIGIT SEVEN} "), "\N{ARABIC-INDIC DIGIT SEVEN}"),
        (GOOD.replace(" 7 ", f" {'9' * 21} "), "999"),
        (table("101:"), "''"),
        (GOOD.replace("101:", "1 1:"), "1 1"),
        (GOOD[:-2], "numfile"),  # "5" of "55" and the newline are gone
        (GOOD[: GOOD.index("numfile")], "cut"),
    ):
        assert offending in str(refusal(SourceMalformed, beancounters.parse, text))


NEXT = row("numproc", 6, 7, 8, 9, 10, uid="102")


def test_a_malformed_container_costs_only_itself() -> None:
    malformed = [
        row("numproc", 1, 2, 3, 4, uid="101"),
        row("numproc", 1, -2, 3, 4, 5, uid="101"),
        row("numproc", 1, 2, 3, 4, 5, uid="101") + "\n" + row("numproc", 1, 2, 3, 4, 5),
        row("numproc", 1, 2, 3, 4, 5),  # of an unknown uid
    ]
    for bad in malformed:
        text = table(bad, NEXT)
        assert {ctid for _, ctid, _ in exposed(text)} == {"102"}, bad
        assert "\nopenvz_beancounters_refused_containers 1.0\n" in page(text)


def test_a_row_that_runs_into_the_next_uid_costs_both() -> None:
    """The last row of the first uid and the second uid are both unknown."""
    whole = table(row("numproc", 1, 2, 3, 4, 5, uid="100"), row("numproc", 1, 2, 3, 4, 5, uid="101"), NEXT)
    found = beancounters.parse(whole.replace("5\n       101:", "5       101:"))
    assert ([each.ctid for each in found.containers], found.refused) == (["102"], 2)


def test_a_cut_end_costs_only_the_last_container() -> None:
    for uid in ("102", "0d5a1b3e-7f52-4a0c-9c1e-3b8f6a2d4e71"):
        whole = table(row("numproc", 1, 2, 3, 4, 5, uid="101"), row("numproc", 1, 2, 3, 4, 1234, uid=uid))
        last = whole.rindex("\n", 0, -1) + 1
        for end in range(whole.index(":", last) + 1, len(whole) - 1):
            found = beancounters.parse(whole[:end])
            assert ([each.ctid for each in found.containers], found.refused) == (["101"], 1)
    assert beancounters.parse(GOOD) == beancounters.parse(GOOD + "\n")


def test_what_is_kept_from_read_to_read_changes_nothing() -> None:
    numproc, kmemsize = (row(name, 1, 2, 3, NO_LIMIT, 5, uid="101") for name in ("numproc", "kmemsize"))
    more = [row("kmemsize", 10**21, 2, 3, 4, 5), row("numproc", 0, 2, 3, 4, 5, uid="0"), NEXT]
    last: beancounters.Beancounters | None = None
    shown = Families()
    for text in (
        *(
            table(numproc),
            table(numproc.replace(" 1 ", " 7 ")),
            table(numproc, *more),
            table(*reversed(more), kmemsize),
            table(kmemsize, row("dcachesize", 1, 2, 3, 4, 5)),
            table(row("dcachesize", 1, 2, 3, 4, 5, uid="101"), row("kmemsize", 1, 2, 3, NO_LIMIT, 5)),
        ),
        *(GOOD, GOOD.replace("maxheld", "novelty"), GOOD.replace("101", "205"), table(NEXT), HEAD + "\n", GOOD),
    ):
        fresh, last = beancounters.parse(text), beancounters.parse(text, last)
        assert last == fresh, text
        assert Encoder().text(shown.of(last)) == Encoder().text(Families().of(fresh)), text


def test_a_host_is_read_from_the_file_that_knows_more(tmp_path: Path) -> None:
    found = BeancounterReader(HOSTS / "x86_64-2.6.32-nanoseconds/proc").read()
    held = {each.ctid: each.layout.in_bytes for each in found.containers}
    assert "swappages" in held["3400"]
    found = BeancounterReader(HOSTS / "no-container/proc").read()  # only has user_beancounters
    assert [each.ctid for each in found.containers] == ["0"]
    with pytest.raises(SourceUnavailable, match="no OpenVZ host"):
        BeancounterReader(tmp_path).read()


def test_each_containers_own_file_gives_the_same(tmp_path: Path) -> None:
    for ctid, rows in re.findall(r"(?m)^ *([0-9]+):(.*\n(?: {12}.*\n)*)", fixture("x86_64-2.6.32-nanoseconds")):
        (tmp_path / "bc" / ctid).mkdir(parents=True)
        (tmp_path / "bc" / ctid / "resources").write_text(f"{'':12}{rows.strip()}\n")

    def containers() -> list[str]:
        return [each.ctid for each in BeancounterReader(tmp_path).read().containers]

    together = BeancounterReader(HOSTS / "x86_64-2.6.32-nanoseconds/proc").read()
    found = BeancounterReader(tmp_path).read()
    assert sorted(each[:3] for each in found.containers) == sorted(each[:3] for each in together.containers)
    assert (found.version, found.refused) == (None, 0)
    for name in ("110-ffff880037a3c000", "43"):  # left in memory; gone since the folder was listed
        (tmp_path / "bc" / name).mkdir()
    file = tmp_path / "bc/110/resources"
    shutil.copy(file, tmp_path / "bc/110-ffff880037a3c000")
    assert containers() == ["0", "110", "111", "3400"]
    file.write_text(file.read_text()[:-1])
    assert BeancounterReader(tmp_path).read().refused == 1
    assert containers() == ["0", "111", "3400"], "one that is cut costs only itself"
    (tmp_path / "user_beancounters").write_text(GOOD)
    assert containers() == ["101"], "where there is a file of all, theirs are not read"
