"""Virtual servers side by side: any set of guests, containers and machines, on common axes and against a baseline."""

from dataclasses import replace

from grafana_foundation_sdk.builders import table, timeseries

from dashboards import panels, tables, variables, waiting
from dashboards.layout import Row, page
from dashboards.signals import ANY_HOSTS, Signal, beside, highest, top_now


def _pair(signal: Signal) -> list[timeseries.Panel]:
    return [
        _graph(highest(signal)).span(12).height(12),
        _graph(beside.relative(signal, of_highest=True)).span(12).height(12),
    ]


def _graph(signal: Signal) -> timeseries.Panel:
    """Only as many series as a reader can see: each point would otherwise evaluate thousands of virtual servers."""
    return panels.lines(signal).max_data_points(300)


def _virtual_servers() -> table.Panel:
    ratio = replace(beside.relative(beside.CPU), name="CPU ratio")
    columns = [beside.CPU, ratio, beside.WAIT, beside.MEMORY, beside.NETWORK, beside.LLC_MISSES, beside.IPC]
    its_host = {"host": "Host", "vserver": "Virtual server"}
    with_platform = {**its_host, "platform": "Platform"}
    return tables.columns(
        "Virtual servers",
        "The fifty busiest of those chosen. CPU ratio: CPU used, divided by that of the baseline. Role host is Dom0, "
        "what a host of containers uses itself, or a bare machine. A dash: not known on this platform.",
        {"vserver": "Virtual server", "host": "Host", "platform": "Platform", "role": "Role"},
        [top_now(signal, beside.CPU) for signal in columns],
        height=9,
    ).override_by_name(
        "Virtual server",
        tables.links(
            tables.to_page("virtscope-host", "Host", with_platform),
            tables.to_page("virtscope-neighbours", "Who waits for whom", with_platform),
            *tables.to_own_words(its_host),
        ),
    )


PAGE = page(
    uid="virtscope-virtual-servers",
    title="Virtual servers",
    question="Which virtual server needs more for the same work?",
    answer=(
        "Guests, containers and bare machines of any hosts, side by side: absolute values (left), and divided by "
        "those of the chosen baseline (right)."
    ),
    variables=[*variables.of_any_hosts(), *variables.baseline("vserver"), variables.resource(ANY_HOSTS)],
    rows=[
        Row("", *_pair(beside.CPU), _virtual_servers()),
        Row(
            "Caches",
            *_pair(replace(beside.LLC_MISSES, name="LLC misses per 1,000 instructions")),
            *_pair(replace(beside.IPC, name="Instructions per cycle")),
        ),
        # No baseline: a bare machine has no CPU wait.
        Row("CPU contention", _graph(highest(beside.WAIT)).span(24).height(8)),
        # Opened for one server: a whole fleet has a million series.
        Row(
            "Waiting of the chosen virtual servers",
            waiting.by_who(beside.WAIT_BY_WHO, beside.WAIT_FOR_OWN).span(14).height(10),
            waiting.by_reason(beside.WAIT_BY_REASON).span(10).height(10),
            collapsed=True,
        ),
        Row(
            "Memory, network, disk", *_pair(beside.MEMORY), *_pair(beside.NETWORK), *_pair(beside.DISK), collapsed=True
        ),
    ],
)
