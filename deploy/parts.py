"""The parts of the stack, their ports, and other options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deploy import StackError


@dataclass(frozen=True)
class Part:
    """One program of the stack; `name` is its section in supervisord.conf and the name of its log."""

    name: str
    port_variable: str  # in the environment and for make; the same in compose.yaml
    default_port: int
    health_path: str  # answers 200 once the part is ready
    platform: str | None = None  # the only platform it runs on, as detected by deploy.targets
    capabilities: tuple[str, ...] = ()  # the same as in its unit in exporters/systemd
    groups: tuple[str, ...] = ()  # supplementary groups if root starts the stack

    @property
    def privileges_variable(self) -> str:
        """The variable in supervisord.conf with the options for setpriv."""
        return self.port_variable.replace("_PORT", "_PRIVILEGES")

    @property
    def arguments_variable(self) -> str:
        """The variable with the flags from local/NAME.env."""
        return self.port_variable.replace("_PORT", "_ARGS")


PROMETHEUS = Part("prometheus", "PROMETHEUS_PORT", 9090, "/-/ready")
ALERTMANAGER = Part("alertmanager", "ALERTMANAGER_PORT", 9093, "/-/ready")
NODE_EXPORTER = Part("node_exporter", "NODE_EXPORTER_PORT", 9100, "/")
XENTOP_EXPORTER = Part("xentop-exporter", "XENTOP_PORT", 10290, "/-/healthy", "xen", ("CAP_DAC_OVERRIDE",))
VESTAT_EXPORTER = Part(
    "vestat-exporter", "VESTAT_PORT", 10291, "/-/healthy", "openvz", ("CAP_DAC_READ_SEARCH", "CAP_DAC_OVERRIDE")
)
KVM_EXPORTER = Part("kvm-exporter", "KVM_PORT", 10297, "/-/healthy", "kvm")  # reads only files that any user may read
PERF_EXPORTER = Part("perf-exporter", "PERF_PORT", 10292, "/-/healthy", None, ("CAP_PERFMON", "CAP_SYSLOG"))
SCHED_EXPORTER = Part("sched-exporter", "SCHED_PORT", 10298, "/-/healthy", None, ("CAP_BPF", "CAP_PERFMON"))
EXPORTERS = (XENTOP_EXPORTER, VESTAT_EXPORTER, KVM_EXPORTER, PERF_EXPORTER, SCHED_EXPORTER)  # of this project
GRAFANA = Part("grafana", "GRAFANA_PORT", 3000, "/api/health")

OVERVIEW = "/consoles/index.html"  # the page of all hosts in Prometheus: prometheus/consoles

# adm is Debian's group for users who read logs.
TELEGRAF = Part("telegraf", "TELEGRAF_PORT", 9273, "/metrics", groups=("adm",))
CADVISOR = Part("cadvisor", "CADVISOR_PORT", 10293, "/healthz")

DEMO_SENSORS = Part("demo-sensors", "DEMO_PORT", 10294, "/-/healthy")

LIVENESS = Part("liveness", "LIVENESS_PORT", 10296, "/-/healthy")  # restarts parts that hang

# In the order of starting and of display.
PARTS = (PROMETHEUS, ALERTMANAGER, NODE_EXPORTER, *EXPORTERS, TELEGRAF, GRAFANA, LIVENESS)
# For `make demo`, instead of PARTS.
DEMO_PARTS = (PROMETHEUS, XENTOP_EXPORTER, KVM_EXPORTER, VESTAT_EXPORTER, DEMO_SENSORS, GRAFANA)
DOCKER_PARTS = (*(part for part in PARTS if part is not LIVENESS), CADVISOR)

# The URL of a part for users on other machines: used for links in messages.
EXTERNAL_URLS = {
    PROMETHEUS: "PROMETHEUS_EXTERNAL_URL",
    ALERTMANAGER: "ALERTMANAGER_EXTERNAL_URL",
    GRAFANA: "GF_SERVER_ROOT_URL",
}
# A limit in addition to 30 days: the size of 30 days depends on the number of hosts.
RETENTION_SIZE, DEFAULT_RETENTION_SIZE = "PROMETHEUS_RETENTION_SIZE", "20GB"
SETTINGS = (
    *dict.fromkeys(part.port_variable for part in (*PARTS, *DEMO_PARTS, *DOCKER_PARTS)),
    *EXTERNAL_URLS.values(),
    RETENTION_SIZE,
)


def ports(settings: Mapping[str, str], parts: tuple[Part, ...] = PARTS) -> dict[str, int]:
    """Port of each part by name: from `settings` by its `port_variable`, else the default.

    Raises `StackError` for an invalid port, and for two parts with the same port.
    """
    chosen: dict[str, int] = {}
    for part in parts:
        text = settings.get(part.port_variable) or str(part.default_port)
        if not (text.isascii() and text.isdigit() and 0 < int(text) < 65536):
            raise StackError(f"{part.port_variable}={text} is not a port: give a number from 1 to 65535")
        for name, port in chosen.items():
            if port == int(text):
                raise StackError(f"{name} and {part.name} both use port {port}: change {part.port_variable}")
        chosen[part.name] = int(text)
    return chosen


def options(settings: Mapping[str, str], ports: Mapping[str, int]) -> dict[str, str]:
    """The options other than ports, by variable: from `settings`, else the default.

    Raises `StackError` for values that Prometheus, Alertmanager or Grafana would reject.
    """
    chosen = {
        variable: settings.get(variable) or f"http://127.0.0.1:{ports[part.name]}"
        for part, variable in EXTERNAL_URLS.items()
        if part.name in ports
    }
    for variable, url in chosen.items():
        if not re.fullmatch(r"https?://[^\s/?#'\"]+(/[^\s?#'\"]*)?", url):
            raise StackError(f"{variable}={url} is not an address such as https://monitor.example.org/prometheus")
    size = settings.get(RETENTION_SIZE) or DEFAULT_RETENTION_SIZE
    if not re.fullmatch(r"[1-9]\d*[KMGTPE]?B", size):
        raise StackError(f"{RETENTION_SIZE}={size} is not a size such as {DEFAULT_RETENTION_SIZE} or 500MB")
    return {**chosen, RETENTION_SIZE: size}


def kept(running: Mapping[str, str]) -> dict[str, str]:
    """The settings of a running stack that it keeps: all but options that are the defaults for its ports."""
    defaults = options({}, ports(running))
    return {name: running[name] for name in SETTINGS if name in running and running[name] != defaults.get(name)}
