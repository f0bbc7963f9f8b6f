"""Maps virtual servers to applications and tiers: `vserver:app:info`."""

from alerts.generator.application import Application
from alerts.generator.names import Names, quoted
from alerts.generator.rule_file import Rule


def mapping_rules(application: Application) -> list[Rule]:
    """One rule for each tier. With several applications, a virtual server's name has `{app}`: `virtscope/{app}-web`."""
    return [_mapping(application, tier, servers) for tier, servers in application.tiers.items()]


def _mapping(application: Application, tier: str, servers: str) -> Rule:
    app, host = application.app, [application.host.matcher("host")] if application.host else []
    # The parts before and after {app} may be regular expressions.
    plain = Names(servers.replace("{app}", "")).single
    before, _, after = (Names(part).regex if plain else part for part in servers.partition("{app}"))
    if app.single:
        vserver = Names(servers.replace("{app}", app.text if plain else app.regex)).matcher("vserver")
        expr, labels = _running(*host, vserver), {"app": app.text, "tier": tier}
    else:
        regex = quoted(f"{before}(?P<app>{app.text}){after}")
        expr = f'label_replace(\n  {_running(*host, f"vserver=~{regex}")},\n  "app", "${{app}}", "vserver", {regex}\n)'
        labels = {"tier": tier}
    return {"record": "vserver:app:info", "expr": expr, "labels": labels}


def _running(*matchers: str) -> str:
    return f"group by (host, platform, vserver, role) (vserver:cpu_usage:rate{{{', '.join(matchers)}}})"
