"""`make up` with Grafana's release if it is available, and without it otherwise.

The release is a stand-in in the format of the real archive, because no registry has Grafana for tests.
"""

import hashlib
import re
import stat
from pathlib import Path

import pytest

from deploy.programs import catalogue, releases
from tests.stack.conftest import Checkout
from tests.stack.release_site import pack, site

pytestmark = pytest.mark.system

RELEASE = catalogue.GRAFANA.release
# Answers every request with its settings.
GRAFANA = """#!/usr/bin/env python3
import http.server, json, os, sys
if "--version" in sys.argv: sys.exit()
assert sys.argv[1] == "server", sys.argv
settings = {name: value for name, value in os.environ.items() if name.startswith("GF_")}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(settings).encode())
address = settings["GF_SERVER_HTTP_ADDR"], int(settings["GF_SERVER_HTTP_PORT"])
http.server.HTTPServer(address, Handler).serve_forever()
"""


def test_up_ends_with_dashboards_where_the_release_can_be_had(fresh: Checkout, tmp_path: Path) -> None:
    content = {"bin/grafana": GRAFANA.encode(), "conf/defaults.ini": b""}
    with site(pack(f"grafana-{RELEASE.version}", content, "bin/.*")) as played:
        file = fresh.folder / "deploy" / "programs" / "catalogue.toml"
        pinned = "|".join(RELEASE.sha256.values())
        file.write_text(re.sub(pinned, hashlib.sha256(played.content).hexdigest(), file.read_text()))
        for name in ("packages", "wheels", "go"):  # a separate cache: this release must not be kept
            (tmp_path / name).symlink_to(f"{fresh.environment['VIRTSCOPE_CACHE']}/{name}")
        fresh.environment |= {"VIRTSCOPE_MIRROR": played.url, "VIRTSCOPE_CACHE": str(tmp_path)}
        up = fresh.must("up")
        grafana = RELEASE.url.format(version=RELEASE.version, architecture=releases.architecture()).rpartition("/")[2]
        assert f"/{grafana}" in played.requests
        assert fresh.url("GRAFANA_PORT") in up
        settings = fresh.get("GRAFANA_PORT").json()
        assert settings["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
        for name in ("GF_PATHS_PROVISIONING", "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"):
            assert Path(settings[name]).is_relative_to(fresh.folder)
            assert Path(settings[name]).exists()
        # Otherwise Grafana would accept "admin" as admin's password.
        [named] = re.findall(
            r"^\$__file\{(.+)\}$", settings["GF_SECURITY_ADMIN_PASSWORD"]
        )  # not itself: programs see it
        password = Path(named)
        made = password.read_text()
        assert (len(made) >= 32, stat.S_IMODE(password.parent.stat().st_mode)) == (True, 0o700)
        row = rf"^grafana +running .* {re.escape(RELEASE.version)}, official release$"
        assert re.search(row, fresh.make("status").stdout, re.MULTILINE)

        played.requests.clear()
        assert "its configuration was reloaded" in fresh.make("up").stdout
        assert (played.requests, password.read_text()) == ([], made)
    fresh.must("down")


def test_without_grafana_up_says_why_and_what_else_there_is(running: Checkout) -> None:
    [row] = [line for line in running.status().splitlines() if line.startswith("grafana ")]
    assert "127.0.0.1:9 cannot be reached: Connection refused" in row
    assert "docs/install.md#grafana" in row
