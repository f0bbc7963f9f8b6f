"""The documentation is up to date: its generated parts, its links, and its words (tools/wording.yml)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tools import metric_reference, vocabulary_reference

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("exporters/*.md")])


def test_the_reference_of_metrics_is_fresh() -> None:
    assert metric_reference.REFERENCE.read_text() == metric_reference.reference(), "run: make docs"


def test_the_page_of_the_vocabulary_is_fresh() -> None:
    page = vocabulary_reference.PAGE.read_text()
    assert page == vocabulary_reference.reference(page), "run: make docs"


def test_links_lead_to_files_and_sections_that_exist() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        broken = []
        for link in [*re.findall(r"\]\(([^()\s]+)\)", text), *re.findall(r"(?m)^\[[^]]+\]: (\S+)$", text)]:
            if not re.match(r"[a-z]+:", link):
                name, _, section = link.partition("#")
                target = (page.parent / name).resolve() if name else page
                if not target.exists() or (section and section not in sections(target)):
                    broken.append(link)
        assert broken == [], page


def test_links_by_a_name_have_one() -> None:
    for page in PAGES:
        named = set(re.findall(r"(?m)^\[([^]]+)\]: ", page.read_text()))
        used = set(re.findall(r"\]\[([^]]+)\]", re.sub(r"`[^`]*`", "", page.read_text())))
        assert used == named, page


def test_limits_of_jobs_are_those_of_prometheus_yml() -> None:
    configured = {
        job["job_name"]: (job["sample_limit"], job["body_size_limit"])
        for job in yaml.safe_load((ROOT / "prometheus/prometheus.yml").read_text())["scrape_configs"]
        if "sample_limit" in job
    }
    rows = re.findall(
        r"(?m)^\| (\w+) \|.*\| ([0-9,]+) samples, ([0-9]+) MB \|$", (ROOT / "docs/security.md").read_text()
    )
    documented = {job: (int(samples.replace(",", "")), f"{size}MB") for job, samples, size in rows}
    # Those over ssh and in guests have the limits of the job that their names begin with.
    assert documented.keys() >= {"xentop", "kvm", "vestat", "perf", "sched", "node", "guest", "telegraf", "app"}
    for job, limits in configured.items():
        assert documented[re.sub(r"_(over_ssh|in_guests)$", "", job)] == limits, job


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; of a module's tests, their names."""
    if page.suffix == ".py":
        return set(re.findall(r"(?m)^def (test_\w+)\(", page.read_text()))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
