"""Grafana, which Debian doesn't package: used where it is installed, else the stack does without."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from tools.parts import GRAFANA, PROMETHEUS
from tools.programs import CHECKOUT

PASSWORD_FILE = CHECKOUT / ".stack" / "secrets" / "grafana-admin-password"
HOW_TO_GET_IT = (
    "is not installed, so there are no dashboards: get it from https://grafana.com/grafana/download?edition=oss and "
    "start again, or import dashboards/json/ into a Grafana that you have (docs/install.md)"
)


def home() -> Path | None:
    """Grafana's folder, with `bin/grafana` and `conf/defaults.ini` in it; None if it isn't installed."""
    candidates = [Path("/usr/share/grafana")]  # where Grafana's own .deb puts it
    program = shutil.which("grafana") or shutil.which("grafana-server")
    if program is not None:
        candidates.append(Path(program).resolve().parent.parent)  # an unpacked archive
    for folder in candidates:
        if (folder / "bin" / "grafana").is_file() and (folder / "conf" / "defaults.ini").is_file():
            return folder
    return None


def make_password() -> None:
    """Make the admin's password, once: Grafana takes it over at its first start and then keeps its own."""
    # Kept by the folder's mode: in Docker Grafana reads the file itself as another user (see compose.yaml).
    PASSWORD_FILE.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not PASSWORD_FILE.exists():
        new = PASSWORD_FILE.with_suffix(".new")
        new.write_text(secrets.token_urlsafe(24))
        new.rename(PASSWORD_FILE)


def environment(ports: Mapping[str, int]) -> dict[str, str]:
    """Grafana's settings, and what dashboards/provisioning asks for; the same as in compose.yaml."""
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
        "GF_LOG_MODE": "console",  # supervisord keeps the log
        "VIRTSCOPE_DASHBOARDS": str(dashboards / "json"),
        "PROMETHEUS_URL": f"http://127.0.0.1:{ports[PROMETHEUS.name]}",
    }
