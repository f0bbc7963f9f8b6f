"""Monitoring: is it complete, and what does it cost?"""

from dashboards import panels, tables, variables
from dashboards.layout import Row, page
from dashboards.signals import advice, exporters, stack

PAGE = page(
    uid="virtscope-monitor",
    title="Monitoring",
    question="Can I trust what I see, and what does it cost?",
    answer=(
        "Targets that are down and sources that fail leave gaps; scrapes cost CPU on the monitored hosts, rules "
        "and storage on the one that Prometheus runs on."
    ),
    variables=variables.of_any_hosts(),
    rows=[
        Row(
            "",
            *panels.tiles(stack.TARGETS_DOWN, stack.SOURCES_FAILING, stack.RULE_FAILURES, stack.SLOWEST_RULES),
            tables.columns(
                "Targets",
                "Every target of Prometheus, those first that are down, with the duration and the samples of "
                "its scrapes.",
                {"host": "Host", "job": "Job", "instance": "Address"},
                stack.TARGETS,
                height=9,
            ),
            tables.columns(
                "Source failures",
                "Scrapes in which a source failed, by reason (docs/runbooks/SourceFailing.md); lines of access logs "
                "that don't parse. If all lines fail, docs/sensors.md doesn't have their format.",
                {"host": "Host", "job": "Job", "source": "Source", "reason": "Reason"},
                [stack.SOURCE_ERRORS],
                height=7,
            ),
        ),
        Row("Cost on the hosts", panels.lines(stack.CPU).span(12).height(10), panels.half(stack.SCRAPE_SECONDS)),
        Row(
            "Rules and storage of Prometheus",
            *panels.tiles(stack.SAMPLES, stack.MEMORY),
            panels.lines(stack.RULES).span(12).height(8),
            panels.over_time(stack.SERIES).span(6).height(8),
            panels.over_time(stack.DISK).title("Storage").axis_soft_max(2**20).span(6).height(8),
            tables.columns(
                "Parts of the stack",
                "What `make up` has started here. A part that ends or hangs is started again, which counts as "
                "a failure in the time shown; docs/faults.md says how.",
                {"host": "Host", "part": "Part"},
                stack.PARTS,
            ),
        ),
        Row(
            "Advice on placement",
            tables.columns(
                "Calibration of advise",
                "The latest predictions of response times that could be checked: those with the response within their "
                "90 % interval, and the median error relative to the response. Intervals are widened until 90 % are "
                "within; below 50 %, or with a larger error than 50 %, advise answers nothing.",
                {"host": "Host"},
                advice.CALIBRATION,
                height=4,
            ),
        ),
        Row(
            "Exporters in detail",
            tables.columns(
                "Left out by exporters",
                "Values that are in no series of the last scrape, as they were malformed, unknown or not "
                "readable. docs/metrics.md explains each metric; the exporter's log has the text.",
                {"host": "Host", "job": "Job", "metric": "Metric", "what": "Of", "reason": "Reason"},
                [exporters.LEFT_OUT],
                width=12,
            ).override_by_name("Metric", tables.as_wide(320)),
            tables.columns(
                "Problems of exporters",
                "Counted in the time shown: failed expositions and background reads, errors of xl, starts of xentop, "
                "reopened groups of perf, and CPU wait for which sched-exporter had no room. The exporter's log has "
                "the text.",
                {"host": "Host", "job": "Job"},
                exporters.PROBLEMS,
                width=12,
            ),
            tables.columns(
                "Reads of sources",
                "Each source of each exporter, the slowest first: where its values come from, and what reading "
                "it takes on average. Age: of sources that are read in the background.",
                {"host": "Host", "job": "Job", "source": "Source", "detail": "From"},
                exporters.READS,
                height=9,
            ).override_by_name("From", tables.as_wide(230, wrapped=True)),
            panels.lines(exporters.CPU_RATE).span(12).height(8),
            panels.lines(exporters.ENCODING).span(12).height(8),
            *(
                panels.small(panels.lines(signal))
                for signal in (exporters.ITERATION_AGE, exporters.COUNTERS, exporters.DESCRIPTORS)
            ),
            tables.columns(
                "Work of sched-exporter",
                "CPU wait attributed to a neighbour / the kernel's own count of it: normally 97 % or more. A context "
                "switch costs 50 to 70 ns, which isn't in the CPU of the process: at 60,000 per second 0.4 % of one "
                "CPU.",
                {"host": "Host", "job": "Job"},
                exporters.SCHED,
                width=12,
                height=6,
            ),
            tables.columns(
                "Versions of exporters",
                "Exporters of each version, and of the Python that runs them.",
                {"job": "Job", "version": "Version", "python": "Python"},
                [exporters.VERSIONS],
                width=12,
                height=6,
            ),
            tables.columns(
                "Hosts over ssh",
                "Requests to ssh-exporter (instance) for each host in the time shown, failures (its log has the "
                "reason), and what the connection costs.",
                {"instance": "Exporter", "target": "Host"},
                exporters.OVER_SSH,
                height=6,
            ),
            collapsed=True,
        ),
    ],
)
