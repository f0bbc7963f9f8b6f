"""The exposition equals prometheus_client's byte for byte, for any families in any order."""

import gzip
import math
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from tests.support.refusals import refusal
from virtscope.toolkit.exposition import Encoder, FamilyError, Gzip
from virtscope.toolkit.families import Block, Blocks, family, info
from virtscope.toolkit.lines import numbers


def client_text(*families: Metric) -> bytes:
    return generate_latest(SimpleNamespace(collect=lambda: families))


# Few names and values, and unusual ones, so that they recur in the next family and the next scrape.
SUFFIXES = ["", "_total", "_bucket", "_count", "_sum", "_info"]
NAMES = st.sampled_from(["xen_domain_cpu_seconds", "9lives", "température", "a.b-c", "x"]) | st.text(
    # No line breaks: prometheus_client writes those at the end of a name, which breaks the page. The exporters' names
    # have no colon, which is for recording rules.
    st.characters(exclude_characters="\n:", codec="utf-8"),
    min_size=1,
    max_size=6,
)
TEXTS = st.sampled_from(["", "0", 'say "hi"', "C:\\new\nline", "100 %", "{}%s%", "日本", "x" * 200]) | st.text(
    st.characters(codec="utf-8"), max_size=6
)
LABELS = st.dictionaries(NAMES | st.sampled_from(["domid", "domain", "le", "__name__"]), TEXTS, max_size=4)
ODD_VALUES: list[float] = [0, -0.0, 1, True, False, math.nan, math.inf, -math.inf, 5e-324, 1e-5, 1e6, 1e16, 1e22, -1e6]
LONG_VALUES = [999999.9999999999, 1234567.5, 123456789012345, 9007199254740993.0, 2**53 + 1, 10**15, 10**16, -(2**70)]
VALUES = st.sampled_from(ODD_VALUES + LONG_VALUES) | st.floats() | st.integers(-(10**20), 10**20)


@st.composite
def samples(draw: st.DrawFn, name: str) -> Sample:
    sample_name = draw(st.sampled_from([name + suffix for suffix in SUFFIXES]) | NAMES)
    return Sample(sample_name, draw(LABELS), draw(VALUES))


@st.composite
def metrics(draw: st.DrawFn) -> Metric:
    made = Metric(draw(NAMES), draw(TEXTS), draw(st.sampled_from(["counter", "gauge", "histogram", "info", "unknown"])))
    made.samples = draw(st.lists(samples(made.name), max_size=6))
    return made


@given(VALUES | st.floats().map(str) | st.decimals(allow_nan=False) | st.fractions(-(10**9), 10**9))
def test_writes_numbers_as_the_client_does(value: Any) -> None:
    family = GaugeMetricFamily("x", "Help.", value)
    assert Encoder().text([family]) == client_text(family)
    many = [value, 999_999, 1_000_000, 1_500_000, 1_234_567, -1_500_000, 2**53, 2**53 - 1]
    assert numbers(many) == list(map(floatToGoString, many)), "also where several are written at once"


def _changed(draw: st.DrawFn, metrics: list[Metric]) -> list[Metric]:
    """The next scrape of the same exporter: mostly unchanged, in new objects."""
    scrape = []
    for metric in metrics:
        kind = draw(st.sampled_from(["counter", metric.type, metric.type]))
        family = Metric(metric.name, draw(st.sampled_from([metric.documentation, "Other."])), kind)
        made = [Sample(*sample) for sample in metric.samples]
        for _ in range(draw(st.integers(0, 2))):
            where = draw(st.integers(0, len(made)))
            made[where : where + draw(st.integers(0, 1))] = draw(st.lists(samples(metric.name), max_size=2))
        if draw(st.integers(0, 4)) == 0:
            made = draw(st.permutations(made))
        if draw(st.booleans()):
            made = [sample._replace(value=draw(VALUES)) for sample in made]
        family.samples = [sample._replace(labels=dict(sample.labels)) for sample in made]
        scrape.append(family)
    return scrape + [metric for metric in scrape if draw(st.integers(0, 5)) == 0]


@settings(max_examples=30)  # four scrapes each
@given(st.lists(metrics(), min_size=1, max_size=3), st.data())
def test_keeps_no_stale_line(metrics: list[Metric], data: st.DataObject) -> None:
    encoder = Encoder()
    for _ in range(4):
        assert encoder.text(metrics) == client_text(*metrics)
        for metric in metrics:  # the collector's own dicts, which it may reuse
            for sample in metric.samples:
                if data.draw(st.integers(0, 3)) == 0:
                    sample.labels["domain"] = data.draw(TEXTS)
        metrics = data.draw(st.composite(_changed)(metrics))


def _guests(*names: str, value: float = 1) -> Metric:
    family = GaugeMetricFamily("xen_domain_vcpus", "Virtual CPUs.", labels=["domain", "domid"])
    for domid, name in enumerate(names):
        family.add_metric([name, str(domid)], value)
    return family


def test_a_family_of_the_same_values_is_the_same_object_again() -> None:
    """So it isn't compressed again."""
    encoder = Encoder()
    encoder.pieces([_guests("web", "db")])
    second, third = (encoder.pieces([_guests("web", "db")])[0] for _ in range(2))
    assert second is third


def _odd(value: Any = 1, labels: Any = None, documentation: Any = "Help.") -> Metric:
    family = Metric("odd", documentation, "gauge")
    family.samples = [Sample("odd", labels or {}, value)]
    return family


def test_a_family_that_cant_be_written_costs_only_itself() -> None:
    unwritable = [*map(_odd, ("many", None, 10**400)), _odd(documentation=None)]
    unwritable += [_odd(labels=labels) for labels in ({"domid": 7}, {"a": "1", 2: "2"}, {"domain": "\udcff"})]
    unwritable.append(Blocks("odd", "Odd.", [Block("odd", [{"domain": "\udcff"}], [1])]))
    for odd in unwritable:
        refused: list[FamilyError] = []
        encoder = Encoder(on_refused=refused.append)
        for _ in range(2):
            page = [_guests("web"), odd, _guests("db")]
            assert encoder.text(page) == client_text(_guests("web"), _guests("db"))
        assert [error.family for error in refused] == ["odd"] * 2
        assert "'odd'" in str(refused[0])
        assert refusal(FamilyError, Encoder().text, [odd]).family == "odd", "without a callback"


def test_a_line_break_at_a_names_end_stays_out_of_the_page() -> None:
    # prometheus_client writes such a name unescaped, and Prometheus then rejects the whole page.
    family = Metric("odd\n", "Help.", "gauge")
    family.add_sample("odd\n", {"label\n": "x"}, 1)
    assert Encoder().text([family]) == b'# HELP odd_ Help.\n# TYPE odd_ gauge\nodd_{label_="x"} 1.0\n'


BLOCK_NAMES = ["held_bytes", "failures_total", "9lives", "x_created", "température"]


@st.composite
def blocks(draw: st.DrawFn) -> Blocks:
    name = draw(st.sampled_from(BLOCK_NAMES))
    made = []
    for labels in draw(st.lists(st.lists(LABELS, max_size=3), max_size=3)):
        values = draw(st.lists(st.none() | VALUES, min_size=len(labels), max_size=len(labels)))
        made.append(Block(name, labels, values))
    return Blocks(name, draw(TEXTS), made)


@given(blocks(), st.data())
def test_blocks_are_written_as_the_client_writes_their_samples(made: Blocks, data: st.DataObject) -> None:
    encoder = Encoder()
    for _ in range(2):  # the second time with cached lines
        assert encoder.text([made]) == client_text(made)
    values = [[data.draw(st.none() | VALUES) for _ in block.values] for block in made.blocks]
    again = [Block(block.name, block.labels, new) for block, new in zip(made.blocks, values, strict=True)]
    changed = Blocks(made.name, made.documentation, again)
    assert encoder.text([changed]) == client_text(changed)


def test_a_family_is_a_counter_by_its_name_and_has_a_sample_of_each_thing_with_a_value() -> None:
    none, some = {"thing": "none"}, {"thing": "some"}
    reads = CounterMetricFamily("demo_reads", "Reads.", labels=["thing"])
    reads.add_metric(["some"], 7)
    assert Blocks("demo_reads_total", "Reads.", [Block("demo_reads_total", [some, some], [7, None])]) == reads
    assert family("demo_reads_total", "Reads.", [(none, None), (some, 7)]) == reads
    sizes = family("demo_size_bytes", "Size.", [(none, 0), (some, 14)])
    assert sizes.type == "gauge"
    assert [sample[:3] for sample in sizes.samples] == [("demo_size_bytes", none, 0), ("demo_size_bytes", some, 14)]
    build = info("demo_build_info", "Version.", [{**some, "version": "1"}])
    assert client_text(build).splitlines()[1:] == [
        b"# TYPE demo_build_info gauge",
        b'demo_build_info{thing="some",version="1"} 1.0',
    ]


# Few pieces, small and large, that recur as the same object or as a copy.
PIECES = [b"", b"# EOF\n", b"held 1.0\n" * 10_000, b"limit 1.0\n" * 10_000, bytes(range(256)) * 100]


@given(st.lists(st.lists(st.sampled_from(PIECES) | st.binary(max_size=9)), max_size=4))
def test_any_gzip_reads_every_page(pages: list[list[bytes]]) -> None:
    compressor = Gzip()
    for pieces in pages:
        assert gzip.decompress(compressor.compress(pieces)) == b"".join(pieces)
    for number in range(20):  # each probably gets the id of the previous, deleted one
        piece = b"%d\n" % number * 20_000
        assert gzip.decompress(compressor.compress([piece])) == piece
