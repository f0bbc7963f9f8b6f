"""Divides the shipped rules: each shard evaluates some, the others are evaluated centrally, over all shards' records.

A shard has only its own hosts' series. So rules across hosts are central, unless they need only SHARED from other
shards; so are rules that read their records. Each file is either a shard's or central; a single Prometheus reads them
all.
"""

import os
from pathlib import Path

import yaml

from deploy import merge
from deploy.places import CHECKOUT

CENTRAL = "alerts/rules/objectives.yml"
# The record that each shard reads from all others, its tier, and its name there: an application's requests if its web
# tier is in another shard. One series for each such tier.
SHARED, ELSEWHERE = ("app:requests:rate", "web"), "app:requests_elsewhere:rate"


def patterns() -> list[Path]:
    """The rule_files of prometheus.yml, such as "alerts/rules/*.yml", relative to the checkout."""
    return [Path(os.path.normpath(f"prometheus/{pattern}")) for pattern in merge.prometheus()["rule_files"]]


def files() -> list[Path]:
    """All rule files of prometheus.yml, including users' own."""
    return sorted(file for pattern in patterns() for file in CHECKOUT.glob(str(pattern)))


def of_shards() -> list[Path]:
    """The rule files that each shard evaluates."""
    return [file for file in files() if not file.match(CENTRAL)]


def central_files() -> list[Path]:
    """The rule files that are evaluated centrally."""
    return [file for file in files() if file.match(CENTRAL)]


def central(runbooks: str) -> dict[str, str]:
    """The contents of the central rule files by name, for Thanos Rule.

    `runbooks` is the URL of a Prometheus, as Thanos Rule serves no runbooks. The rules continue while a receiver is
    down, as two others have each of its samples.
    """
    found = {}
    for file in central_files():
        document = yaml.safe_load(file.read_text().replace("{{ $externalURL }}/user/", f"{runbooks}/user/"))
        for group in document["groups"]:
            group["partial_response_strategy"] = "warn"
        found[file.name] = yaml.safe_dump(document, sort_keys=False, width=10**6, allow_unicode=True)
    return found
