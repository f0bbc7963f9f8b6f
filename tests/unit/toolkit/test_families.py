"""Families made of blocks read as any other family, and are written as the client library writes their samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from tests.unit.toolkit.test_exposition import LABELS, TEXTS, VALUES, client_openmetrics, client_text
from virtscope.toolkit.exposition import Encoder, FamilyError
from virtscope.toolkit.families import Block, Blocks, Definition, Series, family, info, series

NAMES = ["held_bytes", "failures_total", "9lives", "x_created", "température"]


@st.composite
def families(draw: st.DrawFn) -> Blocks:
    name = draw(st.sampled_from(NAMES))
    blocks = []
    for labels in draw(st.lists(st.lists(LABELS, max_size=3), max_size=3)):
        values = draw(st.lists(st.none() | VALUES, min_size=len(labels), max_size=len(labels)))
        blocks.append(Block(Series(name, labels), values))
    return Blocks(name, draw(TEXTS), blocks)


@given(st.lists(families(), max_size=3))
def test_written_as_the_client_writes_the_samples(made: list[Blocks]) -> None:
    encoder = Encoder()
    for _ in range(2):  # the second time with the lines that were kept
        assert encoder.text(made) == client_text(*made)
        assert encoder.openmetrics(made) == client_openmetrics(*made)


@given(st.data())
def test_a_new_block_of_the_same_series_shows_its_own_values(data: st.DataObject) -> None:
    labels = data.draw(st.lists(LABELS, min_size=1, max_size=4))
    series = Series("held_bytes", labels)
    encoder = Encoder()
    for _ in range(3):
        values = data.draw(st.lists(st.none() | VALUES, min_size=len(labels), max_size=len(labels)))
        made = Blocks("held_bytes", "Held.", [Block(series, values)])
        assert encoder.text([made]) == client_text(made)


def test_is_a_gauge_or_a_counter_by_its_name() -> None:
    labels = {"ctid": "101", "resource": "numproc"}
    gauge = GaugeMetricFamily("held", "Held.", labels=list(labels))
    gauge.add_metric(list(labels.values()), 7)
    assert Blocks("held", "Held.", [Block(Series("held", [labels, labels]), [7, None])]) == gauge
    counter = CounterMetricFamily("failures_total", "Refused.", labels=list(labels))
    counter.add_metric(list(labels.values()), 7)
    assert Blocks("failures_total", "Refused.", [Block(Series("failures_total", [labels]), [7])]) == counter


def test_one_that_cant_be_written_costs_only_itself() -> None:
    odd = Blocks("odd", "Odd.", [Block(Series("odd", [{"domain": "\udcff"}]), [1])])
    good = Blocks("good", "Good.", [Block(Series("good", [{}]), [1])])
    refused: list[FamilyError] = []
    encoder = Encoder(on_refused=refused.append)
    for _ in range(2):
        assert encoder.text([odd, good]) == client_text(good)
    assert [error.family for error in refused] == ["odd", "odd"]


def test_a_recording_rules_name_is_refused() -> None:
    with pytest.raises(ValueError, match="colon"):
        Blocks("a:rule", "Rule.", [])


def test_a_family_is_a_counter_by_its_name_and_has_a_sample_of_each_thing_with_a_value() -> None:
    definitions = [
        Definition[int]("demo_reads_total", "Reads.", lambda number: number or None),
        Definition[int]("demo_size_bytes", "Size.", lambda number: number * 2.0),
    ]
    reads, size = series(definitions, [({"thing": "none"}, 0), ({"thing": "some"}, 7)])
    assert (reads.name, reads.type, reads.documentation) == ("demo_reads", "counter", "Reads.")
    assert (size.name, size.type, size.documentation) == ("demo_size_bytes", "gauge", "Size.")
    assert [(sample.name, sample.labels, sample.value) for sample in reads.samples] == [
        ("demo_reads_total", {"thing": "some"}, 7)
    ]
    assert [sample.value for sample in size.samples] == [0, 14]
    assert [sample.value for sample in family("demo", "", [({}, None), ({"a": "b"}, 0)]).samples] == [0]


def test_an_info_metric_is_1_for_each_label_set() -> None:
    made = info("demo_build", "Version.", [{"version": "1"}, {"version": "2"}])
    assert (made.name, made.type) == ("demo_build", "info")
    assert [(sample.name, sample.labels, sample.value) for sample in made.samples] == [
        ("demo_build_info", {"version": "1"}, 1),
        ("demo_build_info", {"version": "2"}, 1),
    ]
