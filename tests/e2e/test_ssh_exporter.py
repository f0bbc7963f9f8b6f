"""ssh-exporter's page about itself. Its answers about hosts: tests/ssh."""

import re
from pathlib import Path

from tests.golden_pages import assert_golden, assert_lints
from tests.ssh.exporter import over_ssh
from tests.ssh.sshd import Sshd, script
from virtscope.ssh import authorized_key

TESTS = Path(__file__).resolve().parents[1]
VARYING = r"(?m)^(ssh_(?:received_bytes_total|client_cpu_seconds_total){.*} ).*$"


def test_golden_exposition(tmp_path: Path) -> None:
    """The metrics that every exporter has about itself and its process aren't in the golden page."""
    with Sshd(tmp_path) as sshd:
        for host in ("vz1", "vz2", "refusing"):
            procfs = TESTS / "fixtures/openvz/x86_64-2.6.32-nanoseconds/proc"
            sshd.add_host(host, authorized_key.command(script(procfs)))
        (tmp_path / "key-refusing").unlink()
        with over_ssh(sshd, "vz1", "vz2", "refusing", flags=["--vzlist.interval=0"]) as exporter:
            for host, status in (("vz1", 200), ("refusing", 503)):
                assert exporter.get(f"/probe?module=openvz&target={host}").status_code == status
            page = exporter.get().text
    assert_lints(page)
    own = re.findall(r"(?m)^(?:# \w+ )?ssh_(?!up|source|encode|build).*\n", page)
    assert_golden(TESTS / "golden/ssh.prom", re.sub(VARYING, r"\1VARIES", "".join(own)))
