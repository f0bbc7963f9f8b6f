"""A separate checkout in which the stack is started on Docker with the commands a user runs."""

from collections.abc import Mapping
from pathlib import Path

from tests.compose.engine import Engine
from tests.stack.conftest import Checkout
from tests.support.waiting import wait_for

PROJECT = "virtscope"
COMMAND_SECONDS = 1200  # the first time builds images


class DockerCheckout(Checkout):
    """Runs deploy/compose.py on an engine, with a second compose file besides compose.yaml."""

    def __init__(self, folder: Path, engine: Engine, override: Path, **variables: str) -> None:
        super().__init__(folder)
        self.engine = engine
        (folder / "telegraf" / "local").mkdir()
        self.environment |= {
            **engine.variables,
            "COMPOSE_FILE": f"compose.yaml:{override}",
            "COMPOSE_PROJECT_NAME": PROJECT,
            **variables,
        }

    def compose(self, command: str) -> str:
        """The output of `make compose-COMMAND`; AssertionError if it fails."""
        ours = ["python3", "-m", "deploy.compose", command]
        return self.engine.run(ours, self.environment, self.folder, COMMAND_SECONDS)

    def container(self, service: str) -> str:
        """The name of a service's container, which differs between docker-compose 1.29 and v2."""
        label = f"--filter=label=com.docker.compose.service={service}"
        return self.engine.docker("container", "ls", label, "--format={{.Names}}").strip()

    def health(self) -> dict[str, str]:
        """The health of each service's container; "" without a health check or after it has ended."""
        containers = self.engine.docker("container", "ls", "--all", "--quiet").split()
        if not containers:
            return {}
        form = '{{index .Config.Labels "com.docker.compose.service"}} {{with .State.Health}}{{.Status}}{{end}}'
        lines = self.engine.docker("inspect", f"--format={form}", *containers).splitlines()
        return {service: health for service, _, health in (line.partition(" ") for line in lines)}

    def wait_until_healthy(self, expected: Mapping[str, str], seconds: float = 300) -> None:
        wait_for(self.health, seconds, every=1, until=expected.__eq__)
