"""Grafana, which no distribution packages: an installed one, otherwise the official release, otherwise none."""

import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from deploy import configuration, programs
from deploy.parts import GRAFANA, PROMETHEUS
from deploy.programs import CHECKOUT, catalogue

PASSWORD_FILE = CHECKOUT / ".stack" / "secrets" / "grafana-admin-password"
TRY_AGAIN_SECONDS = 24 * 3600


def home() -> Path | None:
    """Grafana's folder, with `bin/grafana` and `conf/defaults.ini`; None without Grafana on this machine."""
    candidates = [Path("/usr/share/grafana")]  # of Grafana's own .deb
    program = shutil.which("grafana") or shutil.which("grafana-server")
    if program is not None:
        candidates.append(Path(program).resolve().parent.parent)  # an unpacked archive
    if programs.got(catalogue.GRAFANA) is not None:
        candidates.append((programs.BIN / "grafana").resolve().parent.parent)
    for folder in candidates:
        if (folder / "bin" / "grafana").is_file() and (folder / "conf" / "defaults.ini").is_file():
            return folder
    return None


def is_to_be_tried() -> bool:
    """Whether `get` would download it: it is missing on this machine, and no download has failed within a day."""
    refused = programs.refused(catalogue.GRAFANA)
    failed = refused.stat().st_mtime if refused.exists() else 0.0
    return home() is None and time.time() - failed > TRY_AGAIN_SECONDS


def get() -> None:
    """Download it. The stack works without: after a failure, the next try is a day later."""
    if is_to_be_tried():
        programs.get_if_possible(catalogue.GRAFANA)


def why_missing() -> str:
    """Why there are no dashboards, and the remedy, in one line."""
    why = programs.why_missing(catalogue.GRAFANA)
    return f"missing: {why}. Other ways to have dashboards: docs/install.md#grafana"


def make_password() -> None:
    """Make the admin's password, once: Grafana reads it at its first start and then keeps its own."""
    # Protected by the folder's mode: in Docker, Grafana reads the file as another user (see compose.yaml).
    PASSWORD_FILE.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not PASSWORD_FILE.exists():
        new = PASSWORD_FILE.with_suffix(".new")
        new.write_text(secrets.token_urlsafe(24))
        new.rename(PASSWORD_FILE)


def environment(ports: Mapping[str, int]) -> dict[str, str]:
    """Grafana's settings, and the variables of dashboards/provisioning; the same as in compose.yaml."""
    stack, dashboards = CHECKOUT / ".stack", CHECKOUT / "dashboards"
    return {
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(ports[GRAFANA.name]),
        # Grafana reads the file. (GF_SECURITY_ADMIN_PASSWORD__FILE works in Grafana's Docker image only.)
        "GF_SECURITY_ADMIN_PASSWORD": f"$__file{{{PASSWORD_FILE}}}",
        "GF_PATHS_DATA": str(stack / "data" / "grafana"),
        "GF_PATHS_LOGS": str(stack / "log"),
        "GF_PATHS_PLUGINS": str(stack / "data" / "grafana" / "plugins"),
        "GF_PATHS_PROVISIONING": str(dashboards / "provisioning"),
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(dashboards / "json" / "fleet.json"),
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        "GF_SECURITY_DISABLE_GRAVATAR": "true",
        # Otherwise Grafana 13.2 downloads its bundled plugins again, including the Prometheus data source.
        "GF_PLUGINS_PREINSTALL_DISABLED": "true",
        "GF_PLUGINS_PUBLIC_KEY_RETRIEVAL_DISABLED": "true",
        "GF_LOG_MODE": "console",  # supervisord keeps the log
        "VIRTSCOPE_DASHBOARDS": str(dashboards / "json"),
        "VIRTSCOPE_INTERVAL": configuration.interval(),
        "PROMETHEUS_URL": f"http://127.0.0.1:{ports[PROMETHEUS.name]}",
    }
