"""Finds omissions and typing errors in users' files that no program reports: a line for each."""

import difflib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping

from deploy import configuration, parts, privileges, telegraf
from deploy.configuration import ALERTMANAGER, PROMETHEUS
from deploy.exporters import PLATFORMS
from deploy.health import Target
from deploy.parts import TELEGRAF, Part
from deploy.programs import CHECKOUT

FOR_GUESTS = {"guest", "telegraf", "telegraf_in_guests", "app", "app_in_guests"}  # may have a vserver
OVER_SSH = ("xen", "openvz")
_FILE_NAMED = re.compile(r"""^[^#\n]*?\b(\w+_file): *(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"',}]+))""", re.MULTILINE)
_DEFINED = re.compile(r"{{-?\s*define\s+[\"]([^\"]+)[\"]")
_USED = re.compile(r"{{-?\s*template\s+[\\]?[\"]([^\"\\]+)")
_LOGS_NAMED = re.compile(r"""^[^#\n]*/access_log\.pl +([^"'\n]+)["']""", re.MULTILINE)


def in_targets(scraped: Iterable[Target], dropped: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Oversights in local/targets/; `dropped` are the labels of entries that Prometheus drops."""
    for target in scraped:
        if target.platform and target.platform not in PLATFORMS:
            near = difflib.get_close_matches(target.platform, PLATFORMS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(PLATFORMS)}"
            yield f"{target.address} (job {target.job}) has platform {target.platform}, which no rule knows: {meant}"
    for labels in dropped:
        address, job = labels["__address__"], labels["job"]
        if job == "vestat_over_ssh":
            continue  # has the same entries as the next job
        file = "ssh" if job == "xentop_over_ssh" else job
        if file == "ssh" and labels.get("platform") not in OVER_SSH:
            yield (
                f"{address} is not scraped: local/targets/ssh.yml is for platforms {' and '.join(OVER_SSH)}, and "
                f"its entry has {labels.get('platform') or 'none'}"
            )
        if labels.get("vserver") and job not in FOR_GUESTS:
            yield (
                f"{address} is not scraped: local/targets/{file}.yml is for hosts, and its entry has a vserver, "
                "as those in guest.yml, telegraf.yml and app.yml may"
            )


def in_configuration() -> Iterator[str]:
    """Oversights with files named in the configurations.

    Prometheus's are relative to its configuration, Alertmanager's to the folder that it runs in, the checkout.
    """
    of_parts = ((PROMETHEUS, parts.PROMETHEUS, "prometheus/"), (ALERTMANAGER, parts.ALERTMANAGER, ""))
    for running, part, folder in of_parts:
        for key, *names in _FILE_NAMED.findall(running.read_text()):
            name = "".join(names)
            wrong = _why_unreadable(f"{folder}{name}", part)
            if wrong:
                yield f"{configuration.origin(running)} names {name} as {key}, which {wrong}"


def in_notifications() -> Iterator[str]:
    """Templates that receivers use and no file defines: Alertmanager would find that out with the first alert."""
    files = [*CHECKOUT.glob("alerts/templates/*.tmpl"), *configuration.LOCAL.glob("templates/*.tmpl")]
    defined = {name for file in files for name in _DEFINED.findall(file.read_text())}
    for name in dict.fromkeys(_USED.findall(ALERTMANAGER.read_text())):
        if name.startswith("virtscope.") and name not in defined:
            near = "".join(
                f"; did you mean {each}?" for each in difflib.get_close_matches(name, defined, n=1, cutoff=0.85)
            )
            yield f"{configuration.origin(ALERTMANAGER)} uses template {name}, which no file defines{near}"


def in_sensors() -> Iterator[str]:
    """Oversights with the logs of sensors in telegraf/local."""
    for sensor in sorted(telegraf.SENSORS.glob("*.conf")):
        try:
            text = sensor.read_text(errors="replace")
        except OSError:
            continue  # it may have a password, and be readable only for Telegraf's user
        for log in (log for logs in _LOGS_NAMED.findall(text) for log in logs.split()):
            wrong = _why_unreadable(log, TELEGRAF)
            if wrong:
                yield f"{sensor.relative_to(CHECKOUT)} is to read {log}, which {wrong}"


def _why_unreadable(file: str, part: Part) -> str:
    """Why the part can't read a file, worded to follow "which"; empty if it can. Paths are relative to the checkout."""
    if not os.path.lexists(CHECKOUT / file):
        return "isn't there"
    user = privileges.setpriv(part.capabilities, part.groups)
    # In the part's working directory: user nobody may have no access to the folders above the checkout.
    may = subprocess.run(["setpriv", *user, "test", "-r", file], cwd=CHECKOUT, check=False)
    if may.returncode == 0:
        return ""
    return f"{'user nobody, which reads it,' if user else 'you'} can't read"
