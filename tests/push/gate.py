"""The gate of deploy/packages/push/gate and the Prometheus behind it, on loopback ports."""

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import requests
import trustme
import yaml

from deploy.programs import CHECKOUT
from tests.push.remote_write import Labels, request
from tests.support import Prometheus
from tests.support.endpoints import Group
from tests.support.ports import free_port
from tests.support.program import Program
from tests.support.waiting import wait_for
from tools.metric_reference import PAGES, VARIES
from tools.push import FOLDER

PAGE = (PAGES / "kvm-debian12-linux6.1-libvirt9.0-qemu7.2.prom").read_text().replace(VARIES, "1")
WAIT = 180  # seconds, on a busy machine
SHIPPED = FOLDER / "gate"
WINDOW = "30m"  # window for late samples; docs/push.md has the recommended length
PASSWORDS = {"host1": "one", "host1-web01": "guest", "host2": "two"}


class Scraped:
    """The answer of an Exposition at each scrape: the page, and a number that no other scrape has."""

    _firsts = itertools.count(step=10**6)

    def __init__(self) -> None:
        self.times = next(self._firsts)

    def __call__(self) -> str:
        self.times += 1
        return f"{PAGE}# TYPE kvm_scrapes_total counter\nkvm_scrapes_total {self.times}\n"


class _OverTls(Program):
    """vmauth, whose internal address uses its certificate too."""

    def is_ready(self) -> bool:
        address = f"https://127.0.0.1:{self.port}/-/ready"
        return requests.get(address, verify=str(self.folder / "ca.pem"), timeout=5).ok


class Gate:
    """vmauth, vmagent and Prometheus 3. `host2` may push, and so may `host3`, which never does.

    scraped: targets of Prometheus's own jobs.
    """

    def __init__(self, folder: Path, scraped: Mapping[str, Sequence[Group]]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}/api/v1/write"
        self.authority = str(folder / "ca.pem")
        self._vmagent = Program("vmagent", folder)
        self._vmauth = _OverTls("vmauth", folder)
        ca = trustme.CA()
        ca.cert_pem.write_to_path(self.authority)
        issued = ca.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(folder / "gate.key")
        issued.cert_chain_pems[0].write_to_path(folder / "gate.pem")
        self._users()
        self.prometheus = Prometheus(
            folder, scraped, program="prometheus3", flags=["--web.enable-remote-write-receiver"], alert_for="1s"
        )
        self._behind()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.prometheus)
            stack.callback(self._vmagent.stop)
            self._vmagent.start(
                f"-httpListenAddr=127.0.0.1:{self._vmagent.port}",
                f"-remoteWrite.url={self.prometheus.url}/api/v1/write",
                f"-remoteWrite.tmpDataPath={self.folder / 'vmagent'}",
                *documented_flags(),
            )
            stack.callback(self._vmauth.stop)
            self.open()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self) -> None:
        """Open the gate for agents, as initially."""
        self._vmauth.start(
            f"-httpListenAddr=127.0.0.1:{self.port}",
            f"-httpInternalListenAddr=127.0.0.1:{self._vmauth.port}",
            "-tls",
            f"-tlsCertFile={self.folder / 'gate.pem'}",
            f"-tlsKeyFile={self.folder / 'gate.key'}",
            f"-auth.config={self.folder / 'vmauth.yml'}",
        )

    def close(self) -> None:
        """Close the gate, as if the network were cut."""
        self._vmauth.stop()

    def push(self, user: str, series: Sequence[Labels], value: float = 77, *, path: str = "") -> requests.Response:
        """Send a sample of each series; `path` and query replace the correct ones."""
        url = f"https://127.0.0.1:{self.port}{path}" if path else self.url
        password, data = PASSWORDS.get(user, "guessed"), request(series, value, time.time())
        return requests.post(url, data=data, auth=(user, password), verify=self.authority, timeout=30)

    def series_of(self, host: str, job: str) -> set[frozenset[tuple[str, str]]]:
        """The labels of a host's series of a job, or with "" of its records, without labels for the host and the
        scraped address.
        """
        # If guests wait equally long, the one recorded as the longest waiter is arbitrary. Alerts may be about the
        # host's previous agent.
        left_out = "scrape_.+|node_.+|vserver:cpu_wait_highest:rate|ALERTS.*"
        found = self.prometheus.query(f'{{host="{host}", __name__!~"{left_out}", job="{job}"}}')
        own = {"host", "instance", "port"}
        return {
            frozenset(
                (name, value if value != host else "itself") for name, value in one["metric"].items() if name not in own
            )
            for one in found
        }

    def wait_until_alike(self, host: str, other: str, job: str) -> None:
        """Wait until two hosts have the same series of this job, and records; AssertionError with the differences."""
        for each in (job, ""):
            wait_for(
                lambda: self.series_of(host, each) ^ self.series_of(other, each),  # noqa: B023
                WAIT,
                every=1,
                until=lambda differing: not differing,
            )

    def assert_scrapes_while_it_is_away_come_later(self, host: str, scraped: Scraped) -> None:
        """Closed for ten scrapes of a host's agent: once it is open again, their samples arrive."""
        self.close()
        try:
            first = scraped.times
            last = wait_for(lambda: scraped.times, WAIT, until=lambda times: times >= first + 10)
        finally:
            self.open()

        def came() -> list[str]:
            found = self.prometheus.query(f'kvm_scrapes_total{{host="{host}", job="kvm"}}[{WINDOW}]')
            values = [value for series in found for _, value in series["values"]]
            return [value for value in values if first < float(value) <= last]

        wait_for(came, WAIT, every=1, until=lambda values: len(values) >= 8)  # one scrape may have failed

    def _users(self) -> None:
        text = (SHIPPED / "vmauth.yml").read_text()
        text = text.replace("http://127.0.0.1:8429/", f"{self._vmagent.url}/")
        for user, password in PASSWORDS.items():
            text = text.replace(f"%{{{user.upper().replace('-', '_')}_PASSWORD}}", password)
        users = yaml.safe_load(text)
        first = users["users"][0]
        for host in ("host2", "host3"):
            (way,) = first["url_map"]
            own = {**way, "url_prefix": way["url_prefix"].replace("host1", host)}
            password = PASSWORDS.get(host, "three")
            users["users"].append({**first, "name": host, "username": host, "password": password, "url_map": [own]})
        (self.folder / "vmauth.yml").write_text(yaml.safe_dump(users))

    def _behind(self) -> None:
        """The additions to prometheus.yml in docs/push.md, with windows short enough for a test."""
        gate = (SHIPPED / "prometheus.yml").read_text()
        gate = gate.replace("127.0.0.1:8426", f"127.0.0.1:{self._vmauth.port}")
        gate = gate.replace("127.0.0.1:8429", f"127.0.0.1:{self._vmagent.port}")
        (self.folder / "gate.yml").write_text(gate)
        rules = (SHIPPED / "rules.yml").read_text()
        (self.folder / "rules.yml").write_text(re.sub(r"for: 2m", "for: 1s", rules.replace("[3m]", "[20s]")))
        file = self.prometheus.folder / "prometheus" / "prometheus.yml"
        configuration = yaml.safe_load(file.read_text())
        configuration["scrape_config_files"] = [str(self.folder / "gate.yml")]
        configuration["rule_files"].append(str(self.folder / "rules.yml"))
        configuration["storage"] = {"tsdb": {"out_of_order_time_window": WINDOW}}
        file.write_text(yaml.safe_dump(configuration))


def documented_flags() -> list[str]:
    """vmagent's flags as in docs/push.md, except for addresses and folders."""
    (block,) = re.findall(r"(?ms)^vmagent (.*?)^```", (CHECKOUT / "docs/push.md").read_text())
    flags = [flag for flag in block.replace("\\\n", " ").split() if "=" in flag]
    own = ("-httpListenAddr=", "-remoteWrite.url=", "-remoteWrite.tmpDataPath=")
    kept = [flag for flag in flags if not flag.startswith(own)]
    return [flag.replace("relabel.yml", str(SHIPPED / "relabel.yml")) for flag in kept]
