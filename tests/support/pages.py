"""An exporter's answer, with access to single samples."""

from dataclasses import dataclass
from typing import Self, TypeAlias

import requests
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Series: TypeAlias = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""By metric name and labels."""

SECONDS = 60  # maximum for an answer, in emulation and on a busy machine


@dataclass(frozen=True)
class Page:
    samples: list[Sample]

    @classmethod
    def of(cls, address: str) -> Self:
        """Scrapes the exporter at host:port."""
        answer = requests.get(f"http://{address}/metrics", timeout=SECONDS)
        answer.raise_for_status()
        return cls.parse(answer.content.decode())

    @classmethod
    def parse(cls, text: str) -> Self:
        return cls([sample for family in text_string_to_metric_families(text) for sample in family.samples])

    def series(self) -> Series:
        return {(sample.name, frozenset(sample.labels.items())): sample.value for sample in self.samples}

    def all(self, name: str, **labels: str) -> list[Sample]:
        return [sample for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """The value of the only such sample; AssertionError if there isn't exactly one."""
        found = self.all(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0].value

    def total(self, name: str, **labels: str) -> float:
        """The sum of all such samples; 0 if there are none."""
        return sum(sample.value for sample in self.all(name, **labels))

    def labels(self, name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in self.all(name)}
