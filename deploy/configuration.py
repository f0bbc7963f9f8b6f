"""The configuration of Prometheus and Alertmanager: the shipped files, merged with those in local/.

docs/install.md, Settings, lists the settings. The result is running.yml in the shipped file's folder, so that relative
paths in both files mean the same.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

from deploy import StackError, python_packages
from deploy.parts import SETTINGS
from deploy.programs import CHECKOUT

LOCAL = CHECKOUT / "local"
GENERATED = LOCAL / "generated"  # output of `make rules` for files in local/, with the paths of shipped files
PROMETHEUS = CHECKOUT / "prometheus" / "running.yml"
ALERTMANAGER = CHECKOUT / "alerts" / "running.yml"
SHIPPED = {PROMETHEUS: "prometheus/prometheus.yml", ALERTMANAGER: "alerts/alertmanager.yml"}


def local_file(running: Path) -> Path:
    """The user's file that is merged into `running`."""
    return LOCAL / Path(SHIPPED[running]).name


def origin(running: Path) -> str:
    """Its source, for messages: the user's file if it exists, otherwise the shipped one."""
    local = local_file(running)
    return str(local.relative_to(CHECKOUT)) if local.exists() else SHIPPED[running]


def unchecked(running: Path) -> Path:
    """The file that `write` makes of it."""
    return running.with_name("running.new.yml")


def write() -> None:
    """Write each `unchecked` configuration; raises `StackError` if a local file or local/generated is invalid."""
    made_of = GENERATED / "digest"
    if made_of.exists() != bool(inputs()) or (inputs() and made_of.read_text() != digest()):
        sources = [*(str(file.relative_to(CHECKOUT)) for file in inputs()), "this release's rules"]
        raise StackError(f"local/generated isn't made of {' and '.join(sources)}: make rules")
    if not any(local_file(running).exists() for running in SHIPPED) and not inputs():
        for running, shipped in SHIPPED.items():
            shutil.copyfile(CHECKOUT / shipped, unchecked(running))
        return
    python_packages.STACK.install()
    command = [str(python_packages.STACK.python), "-m", "deploy.merge"]
    merged = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    if merged.returncode != 0:
        raise StackError(merged.stderr.strip().splitlines()[-1])


def take() -> None:
    """Replace the running configuration by the written one."""
    for running in SHIPPED:
        unchecked(running).replace(running)


def interval() -> str:
    """The evaluation interval of rules, such as "5s"."""
    file = PROMETHEUS if PROMETHEUS.exists() else CHECKOUT / SHIPPED[PROMETHEUS]
    found = re.search(r"^  evaluation_interval: (\w+)", file.read_text(), re.MULTILINE)
    return found[1] if found else "1m"  # Prometheus's default


def arguments(part: str) -> str:
    """ARGS for a part in local/NAME.env, like in the environment file of a unit."""
    file = LOCAL / f"{part}.env"
    found = re.search(r"""^ARGS=(["']?)(.*)\1 *$""", file.read_text(), re.MULTILINE) if file.exists() else None
    return found[2] if found else ""


def add_settings(environment: MutableMapping[str, str]) -> None:
    """Add ports and addresses from local/stack.env, lines of NAME=VALUE, where they aren't set.

    Raises `StackError` for any other line.
    """
    file = LOCAL / "stack.env"
    for number, line in enumerate(file.read_text().splitlines() if file.exists() else (), start=1):
        found = re.fullmatch(r"""(\w+)=(["']?)(.*)\2""", line.strip())
        if found and found[1] in SETTINGS:
            environment.setdefault(found[1], found[3])
        elif line.strip() and not line.lstrip().startswith("#"):
            there_are = f"there are {', '.join(SETTINGS)}"
            raise StackError(f"local/stack.env:{number}: {line.strip()} is not NAME=VALUE of a setting; {there_are}")


def inputs() -> list[Path]:
    """The files in local/ from which rules are generated."""
    files = (*sorted(LOCAL.glob("objectives/*.yml")), LOCAL / "histograms.yml", LOCAL / "settings.yml")
    return [file for file in files if file.exists()]


def digest() -> str:
    """A digest of all inputs of local/generated."""
    shipped = ("alerts/generator/*.py", "alerts/objectives/*.yml", "alerts/rules/*.yml", "prometheus/*.yml",
               "prometheus/rules/*.yml", "telegraf/access_log.pl")  # fmt: skip
    files = [file for pattern in shipped for file in sorted(CHECKOUT.glob(pattern)) if "running" not in file.name]
    found = hashlib.sha256()
    for file in (*inputs(), *files):
        found.update(f"{file.relative_to(CHECKOUT)}\n".encode() + file.read_bytes())
    return found.hexdigest()
