"""The lab's sensors: Telegraf with copies of telegraf/sensors, as users make them, and cAdvisor for the cgroups."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deploy import go_programs, programs
from deploy.programs import CHECKOUT, catalogue
from lab import LabError
from lab.processes import Process, beside
from lab.servers.instance import Instance

TELEGRAF = CHECKOUT / "telegraf"


def get() -> None:
    """Download both programs if missing, and print how long that takes; raises `LabError`."""
    for suite in (catalogue.TELEGRAF, catalogue.CADVISOR):
        if programs.got(suite) is None:
            build_time = go_programs.PROGRAMS[suite.name].module.build_time
            print(f"Getting {suite.title}, once: by download, or a build of {build_time} ...", flush=True)
        programs.get(suite)


def start(
    folder: Path, logs: Path, instances: Iterable[Instance], ports: tuple[int, int], cpus: str
) -> Iterator[Process]:
    """Start both on these loopback ports, for instances that may start later; call `get` first.

    folder: created for Telegraf's configuration and state.
    """
    telegraf_port, cadvisor_port = ports
    folder.mkdir(parents=True, mode=0o700)  # contains the databases' passwords
    for instance in instances:
        _copy_sensors(instance, folder)
    telegraf: list[str | Path] = [programs.path("telegraf"), "--config", TELEGRAF / "telegraf.conf"]
    telegraf += ["--config-directory", folder, "--quiet"]  # errors only
    cadvisor: list[str | Path] = [
        *(programs.path("cadvisor"), "--listen_ip=127.0.0.1", f"--port={cadvisor_port}"),
        "--raw_cgroup_prefix_whitelist=/virtscope/",
        # As in compose.yaml: it reads at each scrape.
        *("--housekeeping_interval=1m", "--max_housekeeping_interval=1m", "--storage_duration=2m"),
    ]
    own = {"TELEGRAF_PORT": str(telegraf_port), "TELEGRAF_FOLDER": str(TELEGRAF), "STATE_DIRECTORY": str(folder)}
    for name, command in (("Telegraf", telegraf), ("cAdvisor", cadvisor)):
        log = logs / f"{name.lower()}.log"
        yield Process(name, beside(cpus, command), log, environment={**os.environ, **own})


def _copy_sensors(instance: Instance, folder: Path) -> None:
    places = {
        "apache_access_log": ("/var/log/apache2/access.log", str(instance.web_log)),
        "apache_status": ("http://127.0.0.1/server-status?auto", instance.status_url),
        "mysql": ("telegraf@unix(/run/mysqld/mysqld.sock)/", instance.db_dsn),
    }
    for sensor, (before, after) in places.items():
        original = (TELEGRAF / "sensors" / f"{sensor}.conf").read_text()
        copy = edited(original, {before: after, 'app = "shop"': f'app = "{instance.name}"'})
        (folder / f"{instance.name}-{sensor}.conf").write_text(copy)


def edited(configuration: str, replacements: Mapping[str, str]) -> str:
    """A sensor's configuration with placeholders filled in; raises `LabError` if one is missing."""
    for before, after in replacements.items():
        if before not in configuration:
            raise LabError(f"a sensor in {TELEGRAF}/sensors no longer has {before!r}: update lab/sensors.py")
        configuration = configuration.replace(before, after)
    return configuration
