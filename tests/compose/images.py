"""Images under the names pinned in compose.yaml, built from the programs that the other tests run.

An image can't be built for a given digest, and a registry may be unreachable. So `override` makes compose use the tag
without the digest.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.compose.compose_file import CHECKOUT
from tests.compose.engine import Engine
from tests.support.program import program_path

DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
NOBODY, GRAFANA_USER, TELEGRAF_USER = 65534, 472, 999
PASSWD = f"""\
root:x:0:0::/:/bin/sh
nobody:x:{NOBODY}:{NOBODY}::/:/bin/sh
telegraf:x:{TELEGRAF_USER}:{TELEGRAF_USER}::/:/bin/sh
"""

# Answers health checks like Grafana, once it has read the password as its own user; nothing else.
GRAFANA = """\
#!/bin/sh
set -eu
mkdir -p /var/lib/grafana/api
[ -n "$(cat "$GF_SECURITY_ADMIN_PASSWORD__FILE")" ] && echo ok > /var/lib/grafana/api/health
trap 'exit 0' TERM
busybox httpd -f -p "$GF_SERVER_HTTP_ADDR:$GF_SERVER_HTTP_PORT" -h /var/lib/grafana &
wait
"""


@dataclass(frozen=True)
class StandIn:
    """The contents of an image. User, entrypoint and volume folder are those of the real image."""

    changes: tuple[str, ...]
    programs: Mapping[str, str] = field(default_factory=dict)  # path in the image: name, as for program_path
    scripts: Mapping[str, str] = field(default_factory=dict)
    volume: tuple[str, int] | None = None  # path and owner


STAND_INS = {
    # Without cloud service discovery and web pages.
    "prom/prometheus": StandIn(
        ("USER nobody", 'ENTRYPOINT ["/bin/prometheus"]', "VOLUME /prometheus"),
        {"bin/prometheus": "prometheus3", "bin/promtool": "promtool3"},
        volume=("prometheus", NOBODY),
    ),
    "prom/alertmanager": StandIn(
        ("USER nobody", 'ENTRYPOINT ["/bin/alertmanager"]', "VOLUME /alertmanager"),
        {"bin/alertmanager": "alertmanager034", "bin/amtool": "amtool034"},
        volume=("alertmanager", NOBODY),
    ),
    # The release, built by us.
    "quay.io/thanos/thanos": StandIn(("USER 1001", 'ENTRYPOINT ["/bin/thanos"]'), {"bin/thanos": "thanos"}),
    # The release used by the native stack on this machine.
    "prom/node-exporter": StandIn(
        ("USER nobody", 'ENTRYPOINT ["/bin/node_exporter"]'), {"bin/node_exporter": "node_exporter"}
    ),
    # Our own main function around the release's library.
    "ghcr.io/google/cadvisor": StandIn(('ENTRYPOINT ["/usr/bin/cadvisor"]',), {"usr/bin/cadvisor": "cadvisor"}),
    # Only the plugins used in telegraf/sensors, and no Perl.
    "telegraf": StandIn(
        ('ENTRYPOINT ["/entrypoint.sh"]', 'CMD ["telegraf"]'),
        {"usr/bin/telegraf": "telegraf"},
        {"entrypoint.sh": '#!/bin/sh\nexec "$@"\n'},
    ),
    # A stand-in for Grafana.
    "grafana/grafana": StandIn(
        (f"USER {GRAFANA_USER}", 'ENTRYPOINT ["/run.sh"]'),
        scripts={"run.sh": GRAFANA},
        volume=("var/lib/grafana", GRAFANA_USER),
    ),
}


def without_digest(image: str) -> str:
    return DIGEST.sub("", image)


def override(services: Mapping[str, Mapping[str, Any]]) -> str:
    """A second compose file: tags without digests, and the host's network for builds.

    The tests' engine has no network for builds. Everything else comes from the first file.
    """
    changed: dict[str, dict[str, Any]] = {}
    for name, service in services.items():
        if "build" in service:
            arguments = service["build"].get("args", {})
            pinned = {key: without_digest(value) for key, value in arguments.items() if DIGEST.search(value)}
            changed[name] = {"build": {"network": "host", **({"args": pinned} if pinned else {})}}
        elif DIGEST.search(service["image"]):
            changed[name] = {"image": without_digest(service["image"])}
    return yaml.safe_dump({"services": changed})


def make_stand_ins(engine: Engine, services: Iterable[Mapping[str, Any]], folder: Path) -> None:
    for image in {without_digest(service["image"]) for service in services if "build" not in service}:
        repository = image.rpartition(":")[0]
        stand_in = STAND_INS[repository]
        root = folder / repository
        for directory in ("bin", "etc", "tmp", "usr/bin", *([stand_in.volume[0]] if stand_in.volume else [])):
            (root / directory).mkdir(parents=True, exist_ok=True)
        (root / "etc/passwd").write_text(PASSWD)
        _add(root, Path(shutil.which("busybox") or "/bin/busybox"), "bin/busybox")
        for applet in ("cat", "ln", "mkdir", "sh", "sleep", "wget"):
            (root / "bin" / applet).symlink_to("busybox")
        for path, program in stand_in.programs.items():
            _add(root, program_path(program), path)
        for path, script in stand_in.scripts.items():
            (root / path).write_text(script)
            (root / path).chmod(0o755)
        if stand_in.volume:
            os.chown(root / stand_in.volume[0], stand_in.volume[1], stand_in.volume[1])
        engine.make_image(image, root, *stand_in.changes)
        shutil.rmtree(root)


def make_debian(engine: Engine, folder: Path) -> None:
    """Build the base image of our Dockerfiles, unless the engine has it: a minimal Debian, from this machine's mirror.

    apt and pip in it are configured as on this machine.
    """
    first = re.search(r"^FROM (debian:\S+)", (CHECKOUT / "exporters/Dockerfile").read_text(), re.MULTILINE)
    assert first is not None
    image = first[1].replace("${DEBIAN_RELEASE}", "bookworm")
    if engine.has_image(image):
        return
    targets = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)", "Identifier: Packages"]
    repositories = subprocess.run(targets, check=True, capture_output=True, text=True).stdout
    (mirror, *_) = re.findall(r"^Debian [^-\s]+ (\S+)$", repositories, re.MULTILINE)  # not the security mirror
    root = folder / "debian"
    bootstrap = ["debootstrap", "--variant=minbase", "bookworm", str(root), mirror]
    made = subprocess.run(bootstrap, capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    for file in Path("/etc/apt/apt.conf.d").iterdir():
        shutil.copy(file, root / "etc/apt/apt.conf.d")
    variables = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    variables |= {name: value for name, value in os.environ.items() if name in {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"}}
    if Path("/etc/pip.conf").exists():
        shutil.copy("/etc/pip.conf", root / "etc")
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, root / "etc/machine-certificates.crt")
        variables["PIP_CERT"] = "/etc/machine-certificates.crt"
    engine.make_image(image, root, *(f"ENV {name}={value}" for name, value in variables.items()), "CMD bash")
    shutil.rmtree(root)


def _add(root: Path, program: Path, path: str) -> None:
    shutil.copy(program, root / path)
    linked = subprocess.run(["ldd", program], check=False, capture_output=True, text=True).stdout
    for library in re.findall(r"(/\S+) \(0x", linked):
        (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, root / library[1:])
