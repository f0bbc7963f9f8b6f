"""docs/own-prometheus.md, followed word by word: its commands and snippets, with this test's folder and addresses."""

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.endpoints import Exposition, Webhook
from tests.support.program import Program
from tests.support.promql import PrometheusClient
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/own-prometheus.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
XEN = """\
xentop_up 1
xen_host_cpus 4
xen_host_cpu_seconds_total {now}
xen_domain_cpu_seconds_total{{domid="0",domain="Domain-0"}} {now}
"""

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]


class Operator:
    """Does what the page says, on a machine whose / is a folder."""

    def __init__(self, root: Path, addresses: dict[str, str]) -> None:
        self.root, self._addresses = root, addresses
        for folder in ("etc/prometheus", "etc/alertmanager"):
            (root / folder).mkdir(parents=True)

    def on_this_machine(self, text: str) -> str:
        for name, address in self._addresses.items():
            text = text.replace(name, address)
        return re.sub(r"/etc/(virtscope|alertmanager)", rf"{self.root}/etc/\1", text)

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", self.on_this_machine(command)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
        )  # fmt: skip
        printed: str = done.stdout
        assert done.returncode == 0, printed
        return printed

    def snippet(self, title: str) -> Any:
        """The page's YAML below this comment."""
        (found,) = (text for kind, text in BLOCKS if kind == "yaml" and text.startswith(f"# {title}\n"))
        return yaml.safe_load(self.on_this_machine(found))


def command(words: str) -> str:
    """The page's commands with these words."""
    (found,) = (text for kind, text in BLOCKS if not kind and words in text)
    return str(found)


def test_a_prometheus_and_an_alertmanager_of_one_s_own(tmp_path: Path) -> None:
    prometheus, alertmanager = Program("prometheus3", tmp_path), Program("alertmanager", tmp_path)
    grown = iter(range(1_000_000))
    with Exposition(lambda: XEN.format(now=next(grown))) as exporter, Webhook() as pager:
        addresses = {"xen1.example.org:10290": exporter.address, "http://127.0.0.1:9090": prometheus.url}
        operator = Operator(tmp_path, addresses)
        # 1 and 2
        operator.run(command("cp -r prometheus alerts"))
        targets = operator.root / "etc/virtscope/local/targets/xentop.yml"
        targets.write_text(yaml.safe_dump(operator.snippet("/etc/virtscope/local/targets/xentop.yml")))
        theirs = operator.snippet("your prometheus.yml")
        to_alertmanager = [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]}]
        mine = {**theirs, "alerting": {"alertmanagers": to_alertmanager}}
        mine["global"] |= {"scrape_interval": "1s", "evaluation_interval": "1s"}  # for a test that doesn't last minutes
        (operator.root / "etc/prometheus/prometheus.yml").write_text(yaml.safe_dump(mine))
        # 3
        snippet = operator.snippet("your alertmanager.yml")
        route = {"receiver": "mine", "group_wait": "0s", **snippet.pop("route")}
        receivers = [{"name": "mine", "webhook_configs": [{"url": pager.url}]}, *snippet.pop("receivers")]
        own = operator.root / "etc/alertmanager/alertmanager.yml"
        own.write_text(yaml.safe_dump({"route": route, "receivers": receivers, **snippet}))
        operator.run(command("inhibit_rules"))
        try:
            alertmanager.start(
                f"--config.file={own}", f"--storage.path={tmp_path}/silences", "--cluster.listen-address=",
                f"--web.listen-address=127.0.0.1:{alertmanager.port}",
            )  # fmt: skip
            prometheus.start(
                f"--config.file={operator.root}/etc/prometheus/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{prometheus.port}",
            )  # fmt: skip
            asked = PrometheusClient(prometheus.url)
            wait_for(lambda: asked.query('host:overhead_cpu:rate{host="xen1",platform="xen"}', time.time()), 120)
            pager.wait_for(lambda told: told["commonLabels"].get("alertname") == "Watchdog", 60)
            # 5
            said = operator.run(command("make doctor"))
        finally:
            prometheus.stop()
            alertmanager.stop()
    assert "ok    1 of 1 hosts are recorded" in said
    assert "nothing wrong" in said.splitlines()  # below another make, its own last line follows


def test_no_snippet_is_left_out() -> None:
    kinds = [kind or text.splitlines()[0] for kind, text in BLOCKS]
    assert len(kinds) == 6, "each of them is followed above"
