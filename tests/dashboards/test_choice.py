"""The page Xen shows the domains that another page's link has chosen, by the names of virtual servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.signals import xen
from tests.dashboards.promtool import assert_answers

HOST = 'host="xen1",platform="xen"'
# Two living domains of one name, another one, and one that is dying: it is no virtual server any more.
DOMAINS = {"1": "web", "2": "web", "3": "db", "4": "gone"}
KNOWN_AS = {"1": "web/1", "2": "web/2", "3": "db"}
HISTORY = {
    **{f'xen_domain_memory_bytes{{{HOST},domid="{domid}",domain="{name}"}}': "7x9" for domid, name in DOMAINS.items()},
    **{
        f'xen_domain_network_receive_packets_total{{{HOST},domid="{domid}",domain="{name}",vif="0"}}': "0+60x9"
        for domid, name in DOMAINS.items()
    },
    **{
        f'domain:vserver:info{{{HOST},domid="{domid}",domain="{DOMAINS[domid]}",vserver="{vserver}"}}': "1x9"
        for domid, vserver in KNOWN_AS.items()
    },
}


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [(".*", {"1", "2", "3", "4"}), ("web/1", {"1", "4"}), ("(web/2|db)", {"2", "3", "4"})],
)
def test_domains_are_chosen_as_virtual_servers(tmp_path: Path, chosen: str, shown: set[str]) -> None:
    def ask(expr: str) -> str:
        return expr.replace("$vserver", chosen).replace("$__rate_interval", "2m")

    now = {f'{{domid="{domid}",domain="{DOMAINS[domid]}"}}': 7.0 for domid in shown}
    assert_answers(tmp_path, ask(xen.MEMORY.expr), 5, now, HISTORY)
    received: dict[str, float] = {}
    for domid in shown:
        line = f'{{domain="{DOMAINS[domid]}",vif="0"}}'
        received[line] = received.get(line, 0) + 1
    assert_answers(tmp_path, ask(xen.PACKETS_RECEIVED.expr), 5, received, HISTORY)
