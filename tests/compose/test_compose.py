"""compose.yaml as parsed by docker-compose: pinned images, loopback only, health checks, no passwords."""

import configparser
import grp
import re
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from deploy import configuration, go_programs, grafana, parts
from deploy.fleet import compose
from deploy.fleet import settings as fleet_settings
from deploy.programs import catalogue
from tests.compose import compose_file, images
from tests.compose.compose_file import CHECKOUT
from tests.support.privileges import capabilities

Services: TypeAlias = dict[str, dict[str, Any]]

INSIDE = "/etc/virtscope/"
ADDRESS = "--web.listen-address=127.0.0.1:{{{}}}"
# How each program gets its listen address. A service missing here fails the tests.
LISTENS = {
    **{name: ADDRESS.format(f"{name.upper()}_PORT") for name in ("prometheus", "alertmanager")},
    "node-exporter": ADDRESS.format("NODE_EXPORTER_PORT"),
    **{part.name: ADDRESS.format(part.port_variable) for part in parts.EXPORTERS},
    "cadvisor": "--port={CADVISOR_PORT}",
    "grafana": "{GRAFANA_PORT}",
    "telegraf": "{TELEGRAF_PORT}",
    "demo-prometheus": ADDRESS.format("PROMETHEUS_PORT"),
    **{f"demo-{name}-exporter": ADDRESS.format(f"{name.upper()}_PORT") for name in ("xentop", "kvm", "vestat")},
    "demo-sensors": "--port={DEMO_PORT}",
}
ENDS = "demo-history"  # the only one that doesn't serve anything
PORTS = {part.port_variable: str(10000 + part.default_port) for part in (*parts.DOCKER_PARTS, *parts.DEMO_PARTS)}
OPTIONS = {
    "PROMETHEUS_EXTERNAL_URL": "https://monitor.example.org/prometheus",
    "ALERTMANAGER_EXTERNAL_URL": "https://monitor.example.org/alertmanager",
    "GF_SERVER_ROOT_URL": "https://monitor.example.org/grafana",
    "PROMETHEUS_RETENTION_SIZE": "500MB",
}
SET = {**PORTS, **OPTIONS}


@pytest.fixture(scope="module")
def services() -> Services:
    """All services with every profile enabled, every variable set and substituted."""
    return compose_file.services(SET)


def mounts(service: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(source, target, read-only) of each volume; 1.29 prints them as one string, v2 as a mapping."""
    found = []
    for volume in service.get("volumes", ()):
        if isinstance(volume, str):
            source, target, options = volume.split(":")
            found.append((source, target, "ro" in options.split(",")))
        else:
            found.append((volume["source"], volume["target"], bool(volume.get("read_only"))))
    return found


def settings(service: dict[str, Any]) -> list[str]:
    return [*service.get("command", ()), *map(str, service.get("environment", {}).values())]


def test_the_whole_stack_is_there_and_each_platform_gets_its_own_exporter_only(services: Services) -> None:
    assert set(services) == {*LISTENS, ENDS}
    written = yaml.safe_load(compose_file.PATH.read_text())["services"]
    assert {name: service["profiles"] for name, service in written.items() if "profiles" in service} == {
        **{part.name: [part.platform or part.name.removesuffix("-exporter")] for part in parts.EXPORTERS},
        **{name: ["demo"] for name in written if name.startswith("demo-")},
    }


def test_all_listen_on_loopback_at_the_port_asked_for_and_are_checked_there(services: Services) -> None:
    for name, flag in LISTENS.items():
        service = services[name]
        # The host's network publishes no ports: only the program's listen address counts.
        assert (service["network_mode"], "ports" in service) == ("host", False), name
        assert flag.format(**PORTS) in settings(service), name
        assert not [setting for setting in settings(service) if "0.0.0.0" in setting or "[::]" in setting], name
        port = PORTS[re.findall(r"\w+_PORT", flag)[0]]
        assert service["healthcheck"]["test"][-1].startswith(f"http://127.0.0.1:{port}/"), name
    # Services with a separate setting for the address:
    assert "--listen_ip=127.0.0.1" in services["cadvisor"]["command"]
    assert services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert "--cluster.listen-address=" in services["alertmanager"]["command"]  # off; by default 0.0.0.0:9094
    telegraf = (CHECKOUT / "telegraf/telegraf.conf").read_text()
    assert re.findall(r'^\s*listen = "(.*)"$', telegraf, re.MULTILINE) == ["127.0.0.1:${TELEGRAF_PORT:-9273}"]


def test_all_are_pinned_and_confined(services: Services) -> None:
    # Only the capabilities that the exporter's unit grants, except where it owns the files as root.
    as_unit = {part.name for part in parts.EXPORTERS} - {"xentop-exporter"}
    confined = {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "read_only": True,
    }
    for name in LISTENS:
        service = services[name]
        if "build" not in service:
            # The release for readers, and the digest that is pulled.
            assert re.fullmatch(r"\S+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", service["image"])
        added = {"CAP_" + capability for capability in service.get("cap_add", ())}
        # CAP_SYSLOG is only for profiles, and the image has no perf.
        assert added == (capabilities(name) - {"CAP_SYSLOG"} if name in as_unit else set()), name
        assert {key: service[key] for key in confined} == confined, name
        assert not service.get("privileged"), name
        assert service["logging"]["options"]["max-size"], name
    bases = re.findall(r"^FROM (\S+)", (CHECKOUT / "exporters/Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(re.fullmatch(r"debian:\$\{DEBIAN_RELEASE\}-\d{8}-slim", base) for base in bases)


def test_all_read_the_configuration_of_the_native_stack(services: Services) -> None:
    """Mounts come from the checkout, read-only, and every path passed to a program exists."""
    for name in LISTENS:
        service = services[name]
        ours = {target: Path(source) for source, target, _ in mounts(service) if target.startswith(INSIDE)}
        for source, target, read_only in mounts(service):
            assert read_only or not source.startswith("/"), f"{target} can be written from inside {name}"
        for target, folder in ours.items():
            assert folder == CHECKOUT / target.removeprefix(INSIDE)
            assert folder.is_dir()
        for setting in settings(service):
            if INSIDE in setting:
                target = setting[setting.index(INSIDE) :]
                assert any(target.startswith(mounted) for mounted in ours), f"{target} is not mounted in {name}"
                made_of = {configuration.PROMETHEUS: "prometheus.yml", configuration.ALERTMANAGER: "alertmanager.yml"}
                file = CHECKOUT / target.removeprefix(INSIDE)
                assert file.with_name(made_of.get(file, file.name)).exists(), setting


def test_grafana_is_set_up_as_the_native_one_fetches_nothing_and_has_its_password_in_a_file(services: Services) -> None:
    as_native = {**grafana.environment(parts.ports(PORTS)), "GF_SERVER_ROOT_URL": OPTIONS["GF_SERVER_ROOT_URL"]}
    # Paths inside the image, and Docker's path of the password.
    own = {"GF_PATHS_DATA", "GF_PATHS_LOGS", "GF_PATHS_PLUGINS", "GF_LOG_MODE", "GF_SECURITY_ADMIN_PASSWORD"}
    native = {name: value.replace(f"{CHECKOUT}/", INSIDE) for name, value in as_native.items() if name not in own}
    password = {"GF_SECURITY_ADMIN_PASSWORD__FILE": "/run/secrets/grafana-admin-password"}
    in_docker = services["grafana"]["environment"]
    assert in_docker == native | password
    given = {name for service in services.values() for name in service.get("environment", {}) if "PASSWORD" in name}
    assert given == set(password)
    assert not [name for name in in_docker if "ANONYMOUS" in name or "EMBEDDING" in name or "PROXY" in name]
    fetches_nothing = {
        **{f"GF_ANALYTICS_{what}": "false" for what in ("REPORTING_ENABLED", "CHECK_FOR_UPDATES")},
        **{f"GF_{what}": "false" for what in ("ANALYTICS_CHECK_FOR_PLUGIN_UPDATES", "NEWS_NEWS_FEED_ENABLED")},
        **{f"GF_PLUGINS_{what}_DISABLED": "true" for what in ("PREINSTALL", "PUBLIC_KEY_RETRIEVAL")},
        "GF_SECURITY_DISABLE_GRAVATAR": "true",
    }
    assert fetches_nothing.items() <= in_docker.items()


def test_flags_and_defaults_are_those_of_the_native_stack(services: Services) -> None:
    """Flags that set retention and page addresses."""
    configuration = configparser.RawConfigParser(inline_comment_prefixes=None)
    configuration.read(CHECKOUT / "deploy/supervisord.conf")
    alike = ("--storage.tsdb.retention", "--web.external-url", "--web.route-prefix", "--web.listen-address")
    for name in ("prometheus", "alertmanager"):
        command = configuration[f"program:{name}"]["command"]
        native = re.sub(r"%\(ENV_(\w+)\)s", lambda found: SET.get(found[1], ""), command)
        flags = {flag for flag in native.split() if flag.startswith(alike)}
        assert flags == {flag for flag in services[name]["command"] if flag.startswith(alike)}
        assert f"--web.external-url={OPTIONS[f'{name.upper()}_EXTERNAL_URL']}" in flags
    kept = {"--storage.tsdb.retention.time=30d", f"--storage.tsdb.retention.size={SET['PROMETHEUS_RETENTION_SIZE']}"}
    assert kept <= set(services["prometheus"]["command"])
    assert f"--web.external-url={OPTIONS['PROMETHEUS_EXTERNAL_URL']}" in services["demo-prometheus"]["command"]

    # Compose can't compute a default from another variable, so the addresses are written twice.
    written = compose_file.PATH.read_text()
    for variable, default in parts.options({}, parts.ports({})).items():
        assert set(re.findall(rf"\${{{variable}:-([^}}]*)}}", written)) == {default}


def test_exporters_beside_another_stack_listen_on_its_address(tmp_path: Path, services: Services) -> None:
    """By docs/docker.md's snippet."""
    page = (CHECKOUT / "docs/docker.md").read_text()
    [snippet] = re.findall(r"^```yaml\n(# your compose.yaml.*?)^```", page, re.MULTILINE | re.DOTALL)
    [address] = re.findall(r"LISTEN_ADDRESS=(\S+)", snippet)
    (tmp_path / "virtscope").symlink_to(CHECKOUT)
    theirs = tmp_path / "compose.yaml"
    theirs.write_text(snippet)
    found = compose_file.services({**SET, "LISTEN_ADDRESS": address}, theirs)
    assert set(found) == {"cadvisor", "node-exporter", "sched-exporter"}
    for name, service in found.items():
        assert mounts(service) == mounts(services[name])
        assert service.get("cap_add") == services[name].get("cap_add")
        assert service["command"] == [word.replace("127.0.0.1", address) for word in services[name]["command"]]
        assert address in " ".join(service["healthcheck"]["test"])
        assert "127.0.0.1" not in str(service["command"] + service["healthcheck"]["test"])


def test_data_outlives_the_containers(services: Services) -> None:
    volumes = {name: [source for source, _, _ in mounts(each) if "/" not in source] for name, each in services.items()}
    assert {name: found for name, found in volumes.items() if found} == {
        **{name: [f"{name}-data"] for name in ("prometheus", "alertmanager", "grafana")},
        **{name: ["demo-data"] for name in services if name.startswith("demo-")},
    }


def test_telegraf_has_the_native_one_s_sensors_and_may_read_logs(services: Services) -> None:
    telegraf = services["telegraf"]
    configuration = [f"--config={INSIDE}telegraf/telegraf.conf", f"--config-directory={INSIDE}telegraf/local"]
    assert telegraf["command"][-2:] == configuration
    assert (CHECKOUT / telegraf["environment"]["TELEGRAF_FOLDER"].removeprefix(INSIDE) / "access_log.pl").is_file()
    assert telegraf["environment"]["STATE_DIRECTORY"] in telegraf["tmpfs"]  # everything else is read-only
    assert ("/var/log", "/var/log", True) in mounts(telegraf)
    assert telegraf["group_add"] == ["4"]
    assert {group.gr_name for group in grp.getgrall() if group.gr_gid == 4} == set(parts.TELEGRAF.groups)


def test_images_are_of_the_native_stack_s_releases_and_have_stand_ins_for_the_tests(services: Services) -> None:
    for suite in catalogue.SUITES:
        image = images.without_digest(services[suite.name.replace("_", "-")]["image"])
        assert image.rpartition(":")[2].removeprefix("v") == suite.release.version
    fleet = yaml.safe_load(compose.text(fleet_settings.read()))["services"]
    pulled = [service["image"] for service in (*services.values(), *fleet.values()) if "build" not in service]
    for image, release in (images.without_digest(image).rsplit(":", 1) for image in pulled):
        built = [go_programs.PROGRAMS.get(name) for name in images.STAND_INS[image].programs.values()]
        assert {program.module.version for program in built if program} <= {release.removeprefix("v")}, image
