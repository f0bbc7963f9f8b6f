"""Start and stop the stack on Docker: compose.yaml, and what it needs to know of this machine.

python3 -m deploy.compose up | demo | down
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping

from deploy import StackError, configuration, exporters, grafana, sockets, targets
from deploy.parts import (
    ALERTMANAGER,
    DEMO_PARTS,
    DOCKER_PARTS,
    GRAFANA,
    OVERVIEW,
    PROMETHEUS,
    TELEGRAF,
    options,
    ports,
)
from deploy.programs import CHECKOUT
from deploy.targets import Machine

# The first Docker with the capabilities PERFMON and BPF; older ones can't create such a container.
PERFMON_ENGINE = 23
DEMO = "demo"
# Services that reload their files on SIGHUP: rules and targets, receivers, sensors. Compose doesn't watch them.
READ_AGAIN = (PROMETHEUS.name, ALERTMANAGER.name, TELEGRAF.name)
DEMO_HISTORY = f"{DEMO}-history"
DEMO_SERVICES = tuple(
    f"{DEMO}-{name}" for name in ("sensors", "xentop-exporter", "kvm-exporter", "vestat-exporter", "prometheus")
)
PROFILES = ",".join([*exporters.PLATFORM_OF.values(), *exporters.OF_ANY_PLATFORM, DEMO])  # of compose.yaml


def up() -> None:
    """Start the stack, or bring a running one up to date."""
    compose = command()
    if _is_demo(compose):
        down()
    running = _containers(compose)
    engine = _engine()
    machine = targets.this_machine()
    variables = environment(machine, os.environ, engine)
    profiles = variables["COMPOSE_PROFILES"].split(",")
    left_out = [f"{name}-exporter" for name in exporters.OF_ANY_PLATFORM if name not in profiles]
    parts = tuple(part for part in DOCKER_PARTS if part.name not in left_out)
    chosen = ports(variables, parts)
    variables |= options(variables, chosen)
    if not running:
        # Containers on the host's network would restart endlessly if a port is taken.
        used = [part for part in parts if part.platform in {None, machine.platform}]
        sockets.require_free([(part, chosen[part.name]) for part in used], patience=0, command="make compose-up")
    # Not in the repository: the addresses to scrape, with this machine's name, and a password.
    targets.write(machine, chosen)
    configuration.write()
    configuration.take()
    variables["VIRTSCOPE_INTERVAL"] = configuration.interval()
    grafana.make_password()
    before = {service: _containers(compose, service) for service in READ_AGAIN} if running else {}
    _run([*compose, "up", "--detach", "--build", "--remove-orphans"], variables)
    # Services that compose has just started read their files anyway, and may not handle signals yet.
    gone_on = [service for service, ids in before.items() if ids and ids == _containers(compose, service)]
    if gone_on:
        _run([*compose, "kill", "-s", "SIGHUP", *gone_on], variables)
    print(f"\nWatching this machine, {machine.host}, as platform {machine.platform} ({machine.why}).")
    if engine < PERFMON_ENGINE and left_out:
        print(f"Without {' and '.join(left_out)}: Docker {PERFMON_ENGINE} or newer is needed; this is Docker {engine}.")
    _print_addresses(chosen)
    print(f"\nThey are up within a minute: {' '.join(compose)} ps shows their health. To stop: make compose-down")


def demo() -> None:
    """Start the demo instead of the stack, with a history that ends now."""
    compose = command()
    if _is_demo(compose):
        down()  # a demo starts over
    if _containers(compose):
        raise StackError("the stack is running on the demo's ports: make compose-down first")
    chosen = ports(os.environ, DEMO_PARTS)
    sockets.require_free([(part, chosen[part.name]) for part in DEMO_PARTS], patience=0, command="make compose-demo")
    grafana.make_password()
    print(
        f"Making a day of history ({DEMO_HISTORY}) takes about a minute, building the images a few at first.",
        flush=True,
    )
    variables = {**os.environ, **options(os.environ, chosen), "COMPOSE_PROFILES": DEMO}
    try:
        _run([*compose, "up", "--detach", "--build", *DEMO_SERVICES, GRAFANA.name], variables)
    except StackError:
        # Compose only reports that it ended; the reason would be lost with the container.
        subprocess.run([*compose, "logs", "--no-color", DEMO_HISTORY], cwd=CHECKOUT, env=variables, check=False)
        down()
        raise
    print("\nThis is the demo: all data is simulated (docs/demo.md).")
    _print_addresses(chosen)
    print("\nTo stop: make compose-down")


def down() -> None:
    """Stop all that `up` or `demo` started, on any platform; keeps the volumes with recorded data."""
    _run([*command(), "down", "--remove-orphans"], {**os.environ, "COMPOSE_PROFILES": PROFILES})


def command() -> list[str]:
    """`docker compose` if available, else `docker-compose`; `StackError` without both."""
    if shutil.which("docker"):
        version = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if version.returncode == 0:
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise StackError("Docker with its Compose plugin is needed: https://docs.docker.com/engine/install/")


def environment(machine: Machine, given: Mapping[str, str], engine: int) -> dict[str, str]:
    """The variables of compose.yaml that depend on the machine and on Docker's release, unless `given`."""
    found = dict(given)
    wanted = {machine.platform, *(exporters.OF_ANY_PLATFORM if engine >= PERFMON_ENGINE else ())}
    profiles = [name for name in PROFILES.split(",") if name in wanted]
    found.setdefault("COMPOSE_PROFILES", ",".join(profiles))
    if machine.platform == "xen":
        system = platform.freedesktop_os_release()
        if system["ID"] == "debian" and "VERSION_CODENAME" in system:
            # The image's libxenstat must be of the same release as Dom0's Xen.
            found.setdefault("DEBIAN_RELEASE", system["VERSION_CODENAME"])
    return found


def _is_demo(compose: list[str]) -> bool:
    return bool(_containers(compose, DEMO_HISTORY, *DEMO_SERVICES))


def _containers(compose: list[str], *services: str) -> list[str]:
    """IDs of the containers of these services, or of all; `StackError` if Docker doesn't answer."""
    return _answer([*compose, "ps", "--quiet", *services]).split()


def _engine() -> int:
    """Docker's major version, such as 20 for 20.10.24; a custom build, "dev", counts as new."""
    release = _answer(["docker", "version", "--format", "{{.Server.Version}}"]).partition(".")[0]
    return int(release) if release.isdigit() else PERFMON_ENGINE


def _answer(question: list[str]) -> str:
    """Docker's answer; `StackError` if it fails."""
    variables = {**os.environ, "COMPOSE_PROFILES": PROFILES}
    result = subprocess.run(question, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)
    if result.returncode:
        # docker-compose 1.29 prints a traceback; its last line is the error.
        complaint = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StackError(f"Docker does not answer; is it running, and may you use it? ({complaint})")
    return result.stdout


def _print_addresses(chosen: Mapping[str, int]) -> None:
    print(f"prometheus  http://127.0.0.1:{chosen[PROMETHEUS.name]}")
    password = grafana.PASSWORD_FILE.relative_to(CHECKOUT)
    print(f"grafana     http://127.0.0.1:{chosen[GRAFANA.name]}  (user admin, password in {password})")
    print(f"overview    http://127.0.0.1:{chosen[PROMETHEUS.name]}{OVERVIEW}  (without Grafana)")


def _run(arguments: list[str], variables: Mapping[str, str]) -> None:
    """Run compose in the checkout, with its output shown; `StackError` if it fails."""
    result = subprocess.run(arguments, cwd=CHECKOUT, env=variables, check=False)
    if result.returncode:
        raise StackError(f"`{' '.join(arguments)}` failed with status {result.returncode}: its message is above")


def main() -> int:
    """Return the exit status: 0 on success, 1 on failure, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="python3 -m deploy.compose", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the stack, or bring a running one up to date")
    commands.add_parser("demo", help="start simulated hosts instead of the stack")
    commands.add_parser("down", help="stop it; data is kept")
    try:
        configuration.add_settings(os.environ)
        {"up": up, "demo": demo, "down": down}[parser.parse_args().command]()
    except KeyboardInterrupt:
        print("Interrupted. What it had started runs on: make compose-down", file=sys.stderr)
        return 130
    except (StackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
