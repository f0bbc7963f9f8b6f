"""The sensors with their servers, whose real logs and status pages they read."""

import base64
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.endpoints import Exposition
from tests.support.ports import free_port
from tests.support.program import program_path
from tests.support.waiting import wait_for
from tests.telegraf import servers
from tests.telegraf.agent import FOLDER, WAIT_SECONDS, Agent

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]  # the first run may build Telegraf


def request(line: bytes, agent: bytes = b"test", user: bytes | None = None, forwarded_for: bytes = b"") -> bytes:
    headers = [b"Host: localhost", b"Connection: close", b"User-Agent: " + agent, b"Referer: http://a/?q=" + agent]
    if forwarded_for:
        headers.append(b"X-Forwarded-For: " + forwarded_for)
    if user is not None:
        headers.append(b"Authorization: Basic " + base64.b64encode(user + b":secret"))
    return b"\r\n".join([line, *headers, b"", b""])


REQUESTS = {
    request(b"GET / HTTP/1.1"): "GET",
    request(b"GET /?q=%22%20200%205 HTTP/1.1", agent=b'a "quoted" \\ agent \\" 200 5'): "GET",
    request(b'GET /a"b\\c HTTP/1.1', agent=b"\xc3\xa4\xf0\xff\x01\t"): "GET",
    request(b"GET / HTTP/1.1", agent=b""): "GET",
    request(b"GET /private HTTP/1.1", user=b"Alice van Blanks"): "GET",
    request(b"GET /private HTTP/1.1", user=b'o"brien [x] \\'): "GET",
    request(b"GET /private HTTP/1.1", user=b""): "GET",
    request(b"GET /forwarded HTTP/1.1", forwarded_for=b'203.0.113.5, 10.0.0.1" rt=9.999'): "GET",
    request(b"GET /missing HTTP/1.0"): "GET",
    request(b"POST / HTTP/1.1"): "POST",
    request(b"HEAD / HTTP/1.1"): "other",
    request(b"BREW /pot HTTP/1.1"): "other",
    request(b"GET /" + b"x" * 7000 + b" HTTP/1.1"): "GET",
    request(b"GET /" + b"x" * 9000 + b" HTTP/1.1"): "GET",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n": "other",  # a TLS handshake
    b"GET /\r\n\r\n": "GET",
    b"nonsense\r\n\r\n": "other",
}


@pytest.mark.parametrize(
    ("server", "forms"), [("apache", "common combined vhost_combined"), ("nginx", "common combined main named")]
)
def test_every_request_is_in_the_histogram(tmp_path: Path, server: str, forms: str) -> None:
    agent = Agent(tmp_path / "agent")
    folder = tmp_path / "server"
    for form in forms.split():
        agent.add_access_log(folder / f"{form}.log", app=form, server=server)
    with getattr(servers, server)(folder) as port, agent:
        for form in forms.split():
            agent.wait_for_lines(0, app=form)
        for text in REQUESTS:
            servers.send(port, text)
        for form in forms.split():
            found = agent.wait_for_lines(len(REQUESTS), app=form)
            log = (folder / f"{form}.log").read_text(errors="backslashreplace")
            assert found.unparsed == 0, log
            methods = Counter({method: 0 for method, _ in found.requests})
            for (method, _), histogram in found.requests.items():
                methods[method] += histogram.count
            assert methods == Counter(REQUESTS.values()), log
            assert found.requests["GET", "2xx"].count >= 3
            assert found.requests["GET", "4xx"].count >= 2
            assert 0 <= sum(histogram.sum for histogram in found.requests.values()) < 60


def scraped(folder: Path, sensor: str, filled_in: dict[str, str]) -> Agent:
    agent = Agent(folder / "agent")
    agent.add(sensor, filled_in)
    return agent


def test_apache_and_nginx_status(tmp_path: Path) -> None:
    for server, metric in (("apache", "apache_busy_workers"), ("nginx", "nginx_requests_total")):
        with getattr(servers, server)(tmp_path / server) as port:
            address = {"http://127.0.0.1/": f"http://127.0.0.1:{port}/"}
            with scraped(tmp_path / f"{server}-agent", f"{server}_status", address) as agent:
                metrics = metrics_of(agent, metric)
        if server == "apache":
            assert min(metrics[f"apache_{name}"] for name in ("busy_workers", "idle_workers", "scboard_open")) >= 1
            assert {"apache_uptime_seconds", "apache_accesses_total"} <= metrics.keys()
        else:
            assert metrics["nginx_active"] >= 1
            assert metrics["nginx_accepts_total"] == metrics["nginx_handled_total"] >= 1


def test_database_status(tmp_path: Path) -> None:
    with (
        servers.mariadb(tmp_path / "mariadb") as address,
        scraped(tmp_path / "of-mariadb", "mysql", {"/run/mysqld/mysqld.sock": str(address)}) as agent,
    ):
        metrics = metrics_of(agent, "mysql_threads_running", number=25)
        assert min(metrics["mysql_threads_connected"], metrics["mysql_questions"]) >= 1
        assert len([name for name in metrics if name.startswith("mysql_")]) == 25
    with servers.postgresql(tmp_path / "db") as address:
        filled_in = {"/run/postgresql": str(address), '["shop"]': '["postgres"]'}
        with scraped(tmp_path / "of-postgresql", "postgresql", filled_in) as agent:
            metrics = metrics_of(agent, "postgresql_numbackends", number=17)
    assert min(metrics["postgresql_numbackends"], metrics["postgresql_xact_commit"]) >= 1
    assert len([name for name in metrics if name.startswith("postgresql_")]) == 17


def test_probes(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent")
    with Exposition("all well</html>") as page:
        for app, address in {"well": page.address, "dead": f"127.0.0.1:{free_port()}"}.items():
            agent.add("http_probe", {"https://shop.example.org/": f"http://{address}/", '"shop"': f'"{app}"'})
        with agent:
            assert metrics_of(agent, "probe_success", app="well")["probe_success"] == 1
            metrics = metrics_of(agent, "probe_success", app="dead")
            assert metrics["probe_success"] == 0
            assert "probe_duration_seconds" not in metrics
            metrics = metrics_of(agent, "probe_duration_seconds", app="well")
            assert 0 < metrics["probe_duration_seconds"] < 30
            assert metrics["probe_http_status_code"] == 200
            page.text = "an error page with status 200"
            wait_for(lambda: metrics_of(agent, "probe_success", app="well")["probe_success"] == 0)


def test_two_copies_of_each_sensor_get_along(tmp_path: Path) -> None:
    agent = Agent(tmp_path)
    sensors = sorted(path.stem for path in (FOLDER / "sensors").glob("*.conf"))
    for app in ("one", "two"):
        for sensor in sensors:
            url = {"https://shop.example.org/": f"http://127.0.0.1:{free_port()}/"} if sensor == "http_probe" else {}
            agent.add(sensor, {'app = "shop"': f'app = "{app}"', **url})
    with agent:
        for app in ("one", "two"):
            assert metrics_of(agent, "probe_success", app=app)["probe_success"] == 0
    assert "Traceback" not in agent.log.read_text()  # of Starlark


def metrics_of(agent: Agent, name: str, app: str = "shop", *, number: int = 1) -> dict[str, float]:
    """All metrics of an app by name, once the named one exists; promtool must have no complaint about them.

    number: minimum number of metrics of this server, because one reading may arrive in two flushes.
    """
    prefix = f"{name.partition('_')[0]}_"

    def read() -> tuple[str, dict[str, float]]:
        page = agent.page()
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        return page, {sample.name: sample.value for sample in samples if sample.labels.get("app") == app}

    def complete(read: tuple[str, dict[str, float]]) -> bool:
        return name in read[1] and sum(each.startswith(prefix) for each in read[1]) >= number

    page, found = wait_for(read, WAIT_SECONDS, until=complete, explain=agent.log.read_text)
    command = [str(program_path("promtool")), "check", "metrics"]
    said = subprocess.run(command, input=page, check=False, capture_output=True, text=True, timeout=60).stderr
    assert not [line for line in said.splitlines() if line.split()[0] in found]
    return found
