"""Writes docs/metrics.md: all exporters' metrics with labels and meaning.

The source is tests/golden/: pages that tests compare with the exporters' output, so the reference is always correct.
`make docs` writes it, and a test fails if it is out of date.
"""

from collections.abc import Collection, Iterable
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from deploy.exporters import FOLDERS, OVER_SSH, PROGRAMS, prefixes

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "tests/golden"
REFERENCE = ROOT / "docs/metrics.md"

HEAD = """\
# Metrics

Every metric of the exporters, generated from their output by `make docs`. `_total` marks counters and `_info` info
metrics; all others are gauges. Each exporter's page says where values are missing.
"""

EVERY = "every_"

# Objects with their own metrics, and the labels that all of these have; the table lists the others.
OF_EACH = {
    "xentop": ("domain", ("domid", "domain")),
    "kvm": ("guest", ("guest", "pid")),
    "vestat": ("container", ("ctid",)),
}

VARIES = "VARIES"  # placeholder in golden pages for a value that differs in each run


def reference() -> str:
    """Return the reference's text."""
    families = _families()
    of_every = [family for name, family in families.items() if name.startswith(EVERY)]
    sections = [HEAD]
    for exporter in FOLDERS:
        # Metrics that every exporter has about itself are in the last section.
        repeated = {family.name.replace("every_", f"{exporter}_", 1) for family in of_every}
        of_exporter = [
            family for name, family in families.items() if name.startswith(prefixes(exporter)) and name not in repeated
        ]
        what, shared = OF_EACH.get(exporter, ("", ()))
        labels = " and ".join(f"`{label}`" for label in shared)
        note = f"Metrics of a {what} also have {labels}.\n\n" if what else ""
        sections.append(f"\n## [{exporter}-exporter]({exporter}-exporter.md)\n\n" + note + _table(of_exporter, shared))
    over_ssh = [family for name, family in families.items() if name.startswith(f"{OVER_SSH}_")]
    sections.append(
        "\n## [ssh-exporter](agentless.md)\n\nIts own metrics; those of hosts are above.\n\n" + _table(over_ssh)
    )
    names = ", ".join(f"`{exporter}`" for exporter in PROGRAMS)
    sections.append(
        f"\n## Every exporter\n\n`NAME` is the exporter's: {names}. Each also has `process_*`.\n\n" + _table(of_every)
    )
    return "".join(sections)


def _families() -> dict[str, Metric]:
    """Return the families of all pages by name; a family has the samples of all pages."""
    merged: dict[str, Metric] = {}
    for page in sorted(PAGES.glob("*.prom")):
        for family in text_string_to_metric_families(page.read_text().replace(VARIES, "NaN")):
            merged.setdefault(family.name, family).samples += family.samples
    return dict(sorted(merged.items()))


def _table(families: Iterable[Metric], shared: Collection[str] = ()) -> str:
    rows = [f"| `{_name(family)}` | {_labels(family, shared)} | {family.documentation} |\n" for family in families]
    return "| metric | labels | meaning |\n|---|---|---|\n" + "".join(rows)


def _name(family: Metric) -> str:
    name = family.name.replace("every_", "NAME_", 1) if family.name.startswith("every_") else family.name
    return f"{name}_total" if family.type == "counter" else name


def _labels(family: Metric, shared: Collection[str]) -> str:
    names = dict.fromkeys(label for sample in family.samples for label in sample.labels if label not in shared)
    return " ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    REFERENCE.write_text(reference())
