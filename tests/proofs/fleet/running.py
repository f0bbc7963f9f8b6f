"""The fleet as separate processes that can be killed individually, and one large Prometheus next to it."""

import contextlib
import shutil
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from deploy import go_programs, merge
from deploy.fleet import FleetError, rules, scraping
from deploy.fleet.generate import generate
from deploy.fleet.native import lacks_targets
from deploy.fleet.parts import BUILT_AS, Part, parts, writes_to
from deploy.fleet.settings import Settings
from deploy.places import CHECKOUT
from tests.proofs.fleet import phases
from tests.proofs.fleet.hosts import SOON_SECONDS
from tests.support.endpoints import Webhook
from tests.support.ports import free_ports
from tests.support.program import Program

READY_SECONDS = 180  # on a busy machine
ORACLE = "oracle"
# Central rules as shipped: each file once, because a group's evaluation times depend on its path.
_ORACLE_RULES = "rules-of-all"
# Timestamps are aligned to the interval if a busy machine starts a scrape at most this late.
_PROMETHEUS_FLAGS = (f"--scrape.timestamp-tolerance={1000 * SOON_SECONDS:.0f}ms",)
_BLOCK = 420  # ports; the fleet has 400
# Baselines are sped up like everything else: otherwise some start minutes after their inputs.
_HISTORY = "rules/prometheus/rules/history.yml"
_HISTORY_INTERVAL = ("interval: 4m", "interval: 40s")


class Process(Program):
    """A program that can be killed and restarted unchanged. `on_host` is the host name it sees."""

    def __init__(self, name: str, command: list[str], folder: Path, address: str, on_host: str = "") -> None:
        super().__init__(name, folder)
        self.log, self.url, self.address = folder / "log" / f"{name}.log", f"http://{address}", address
        command = ["setpriv", "--pdeathsig", "KILL", *command]  # last: a user namespace resets it
        self._command = phases.on_host(on_host, command) if on_host else command

    def start(self, *flags: str) -> None:
        """Start it; it ends with this process, even if that is killed. `wait_until_ready` waits for it."""
        self._launch([*self._command, *flags])

    def wait_until_ready(self) -> None:
        """Wait until it is ready; raises AssertionError with the end of its log if it ends or takes too long."""
        self._wait_until_ready(READY_SECONDS)

    def reload(self) -> None:
        """Make it reload its configuration."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Its resident memory; 0 if it isn't running."""
        process = self._process
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text() if process else ""
            return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
        return 0


class Link:
    """A TCP forwarder to one address that can be cut like a cable: nothing passes and nothing is refused."""

    def __init__(self, to: str) -> None:
        self._to = to
        self._whole = threading.Event()
        self._whole.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.bytes_passed = 0  # towards the address
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """Let nothing pass until `restore`."""
        self._whole.clear()

    def restore(self) -> None:
        """Let everything pass, buffered data first, as TCP retransmits unacknowledged data."""
        self._whole.set()

    def close(self) -> None:
        """Stop listening."""
        self._whole.set()
        self._listening.shutdown(socket.SHUT_RDWR)  # ends accept(), which close() leaves waiting
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._whole.wait()
        host, port = self._to.rsplit(":", 1)
        try:
            far = socket.create_connection((host, int(port)), timeout=10)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        threading.Thread(target=self._pass, args=(far, near, False), daemon=True).start()
        self._pass(near, far, True)

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                self._whole.wait()
                if counted:
                    self.bytes_passed += len(data)
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                end.close()


class Running:
    """A fleet that watches `targets`, and a large Prometheus that watches all of them with all rules.

    `links` are the connections of each Prometheus of the fleet to its receiver, by the part's name. `webhook` gets
    notifications of the fleet's Alertmanagers, `oracle_webhook` those of the large Prometheus's: one message per alert.
    """

    def __init__(self, settings: Settings, folder: Path, targets: Mapping[str, list[dict[str, Any]]]) -> None:
        self.settings = settings.model_copy(update={"targets": folder / "targets", "first_port": free_ports(_BLOCK)})
        self.folder = folder
        self.processes: dict[str, Process] = {}
        self.links: dict[str, Link] = {}
        self.webhook, self.oracle_webhook = Webhook(), Webhook()
        self._targets = targets
        self._ports = iter(range(self.settings.first_port + 400, self.settings.first_port + _BLOCK))
        self.oracle = f"127.0.0.1:{next(self._ports)}"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._stack.enter_context(self.webhook)
            self._stack.enter_context(self.oracle_webhook)
            shutil.rmtree(self.folder, ignore_errors=True)
            for name in ("log", "data", "targets/local"):
                (self.folder / name).mkdir(parents=True)
            for file in (CHECKOUT / "prometheus" / "targets").glob("*.yml"):
                (self.folder / "targets" / file.name).write_text(yaml.safe_dump(self._targets.get(file.stem, [])))
            self._write()
            self._add_oracle()
            for part in parts(self.settings):
                self._add(part)
            for process in self.processes.values():
                process.start()
            for process in self.processes.values():
                process.wait_until_ready()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def parts(self, kind: str) -> list[Part]:
        """The fleet's parts of a kind."""
        return [part for part in parts(self.settings) if part.kind == kind]

    def add_shard(self) -> None:
        """Add a pair of Prometheus, which takes over some of the others' hosts."""
        before = {part.name for part in parts(self.settings)}
        self.settings = self.settings.model_copy(update={"shards": self.settings.shards + 1})
        self._write()
        new = [part for part in parts(self.settings) if part.name not in before]
        for part in new:
            self._add(part)
            self.processes[part.name].start()
        for part in new:
            self.processes[part.name].wait_until_ready()
            if lacks_targets(part):
                raise FleetError(
                    f"{part.name} can't watch its files of targets: fs.inotify.max_user_instances is too low"
                )
        for name in before:
            if name.startswith("prometheus-"):
                self.processes[name].reload()

    def _write(self) -> None:
        generate(self.settings, self.folder)
        history = self.folder / _HISTORY
        shipped = history.read_text()
        if shipped.count(_HISTORY_INTERVAL[0]) != 1:
            raise FleetError(f"{_HISTORY} has no group whose {_HISTORY_INTERVAL[0]}")
        history.write_text(shipped.replace(*_HISTORY_INTERVAL))
        for part in parts(self.settings):
            if part.kind != "prometheus":
                continue
            assert part.shard is not None
            if part.name not in self.links:
                link = Link(writes_to(self.settings, part.shard, part.replica).write)
                self._stack.callback(link.close)
                self.links[part.name] = link
            file = self.folder / "prometheus" / f"{part.name}.yml"
            config = yaml.safe_load(file.read_text())
            config["remote_write"][0]["url"] = f"http://{self.links[part.name].address}/api/v1/receive"
            file.write_text(yaml.safe_dump(config, sort_keys=False))
        self._notify("alerts/alertmanager.yml", "alerts/alertmanager.yml", self.webhook)

    def _notify(self, shipped: str, file: str, webhook: Webhook) -> None:
        """Notify every alert in its own message."""
        config = yaml.safe_load((CHECKOUT / shipped).read_text())
        for receiver in config["receivers"]:
            if receiver["name"] in ("page", "ticket"):
                receiver["webhook_configs"] = [{"url": webhook.url, "send_resolved": True}]
        routes = [config["route"]]
        for route in routes:  # child routes are appended while iterating
            routes += route.get("routes", [])
            route["group_by"] = ["..."]
        (self.folder / file).write_text(yaml.safe_dump(config))

    def _add(self, part: Part) -> None:
        more = _PROMETHEUS_FLAGS if part.kind == "prometheus" else ()
        (self.folder / part.data).mkdir(parents=True, exist_ok=True)
        command = [*part.starter, str(go_programs.path(BUILT_AS[part.program])), *part.arguments, *more]
        host = ""
        if part.kind == "prometheus":
            host = phases.host_name(scraping.external_labels(part), phases.seed(ORACLE, {}))
        self._run(Process(part.name, command, self.folder, part.address, host))

    def _run(self, process: Process) -> None:
        self.processes[process.name] = process
        self._stack.callback(process.stop)

    def _add_oracle(self) -> None:
        """The shipped prometheus.yml, in the fleet's folder so that rule groups are evaluated at the same times."""
        config = merge.prometheus()
        config["global"] = yaml.safe_load((self.folder / "prometheus/prometheus-0-a.yml").read_text())["global"]
        del config["global"]["external_labels"]
        for file in rules.central_files():
            place = self.folder / _ORACLE_RULES / file.name
            place.parent.mkdir(exist_ok=True)
            shutil.copy2(file, place)
        config["rule_files"] = [*(f"rules/{pattern}" for pattern in rules.patterns()), f"{_ORACLE_RULES}/*.yml"]
        notifier = f"127.0.0.1:{next(self._ports)}"
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [notifier]}]}]}
        for job in config["scrape_configs"]:
            # A target's scrape times depend on all its labels, and shards' targets keep the label that selects them.
            job.setdefault("relabel_configs", []).append(scraping.BUCKET)
            if job["job_name"] in ("prometheus", "alertmanager"):
                job["static_configs"] = []
            else:
                job.pop("static_configs", None)
        (self.folder / f"{ORACLE}.yml").write_text(yaml.safe_dump(config, sort_keys=False))
        self._notify("alerts/alertmanager.yml", "alerts/oracle.yml", self.oracle_webhook)
        alertmanager = [
            *(
                str(go_programs.path(BUILT_AS["alertmanager"])),
                "--config.file=alerts/oracle.yml",
                "--cluster.listen-address=",
            ),
            *(f"--storage.path=data/{ORACLE}-alertmanager", f"--web.listen-address={notifier}"),
        ]
        self._run(Process(f"{ORACLE}-alertmanager", alertmanager, self.folder, notifier))
        prometheus = [
            *(
                str(go_programs.path(BUILT_AS["prometheus"])),
                f"--config.file={ORACLE}.yml",
                f"--storage.tsdb.path=data/{ORACLE}",
            ),
            *(f"--web.listen-address={self.oracle}", "--rules.alert.for-grace-period=1m"),
            *("--enable-feature=concurrent-rule-eval", *_PROMETHEUS_FLAGS),
        ]
        self._run(Process(ORACLE, prometheus, self.folder, self.oracle, ORACLE))


def query(address: str, expr: str) -> list[dict[str, Any]]:
    """The current instant vector from the API; raises FleetError if the API refuses, OSError if nothing answers."""
    return list(_ask(address, "query", {"query": expr}))


def query_range(address: str, expr: str, begin: float, end: float, step: float) -> Iterator[dict[str, Any]]:
    """The series of a range query, `[{"metric": {...}, "values": [[time, "number"], ...]}]`; errors as for `query`."""
    parameters = {"query": expr, "start": repr(begin), "end": repr(end), "step": str(step), "partial_response": "false"}
    yield from _ask(address, "query_range", parameters)


def api(address: str, path: str, **parameters: str) -> Any:
    """The answer of an API below /api/v1/, also if it is an error; raises OSError."""
    return requests.get(f"http://{address}/api/v1/{path}", params=parameters, timeout=60).json()


def _ask(address: str, what: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    answer = api(address, what, **parameters)
    if answer["status"] != "success" or answer.get("warnings"):
        raise FleetError(f"{address}: {parameters}: {answer.get('error') or answer.get('warnings')}")
    result: list[dict[str, Any]] = answer["data"]["result"]
    return result


def metrics(address: str) -> dict[str, float]:
    """The largest value of each metric on a part's own page over all labels; raises OSError."""
    found: dict[str, float] = {}
    for line in requests.get(f"http://{address}/metrics", timeout=60).text.splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            name = series.partition("{")[0]
            found[name] = max(found.get(name, float("-inf")), float(value))
    return found
