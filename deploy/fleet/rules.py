"""Which of the shipped rules each shard evaluates, and which are evaluated centrally, over all shards' records.

A rule that looks across hosts can't be a shard's, which knows only its own, unless SHARED is all that it needs of
others; nor can one that reads such a rule's record. Whole files are the one or the other, and a single Prometheus reads
them all.
"""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from deploy import merge
from deploy.fleet.settings import CHECKOUT

_CENTRAL = "alerts/rules/objectives.yml"
# What each shard reads from all others, a record and a tier, and its name there: how many requests an application gets,
# where its web tier is another shard's. One series for each such tier.
SHARED, ELSEWHERE = ("app:requests:rate", "web"), "app:requests_elsewhere:rate"


def patterns() -> list[Path]:
    """What prometheus.yml reads rules from, such as "alerts/rules/*.yml", relative to the checkout."""
    return [Path(os.path.normpath(f"prometheus/{pattern}")) for pattern in merge.prometheus()["rule_files"]]


def files() -> list[Path]:
    """Every file of rules that prometheus.yml reads, users' own included."""
    return sorted(file for pattern in patterns() for file in CHECKOUT.glob(str(pattern)))


def of_shards() -> list[Path]:
    """Those that each shard evaluates."""
    return [file for file in files() if not file.match(_CENTRAL)]


def central_files() -> list[Path]:
    """Those that are evaluated centrally."""
    return [file for file in files() if file.match(_CENTRAL)]


def central(runbooks: str) -> dict[str, str]:
    """The content of the central rules' files, by name, for Thanos Rule.

    It serves no runbooks: `runbooks` is the URL of a Prometheus, which does. The rules go on while a receiver is down,
    as two others have each of its samples.
    """
    found = {}
    for file in central_files():
        document = yaml.safe_load(file.read_text().replace("{{ $externalURL }}/user/", f"{runbooks}/user/"))
        for group in document["groups"]:
            group["partial_response_strategy"] = "warn"
        found[file.name] = yaml.safe_dump(document, sort_keys=False, width=10**6, allow_unicode=True)
    return found
