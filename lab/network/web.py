"""An open-loop web load: nginx with two static files, and vegeta, which requests one of them at a constant rate.

A request is due at its time whether or not earlier ones are answered. Response time counts from the due time, as in
wrk2: a delayed client would be a waiting user.
"""

import shutil
from pathlib import Path

from deploy import go_programs
from lab.network.paths import Ends
from lab.network.scenario import FILES, WebLoad

CONFIG = Path(__file__).with_name("nginx.conf")
IN_GUEST = Path(__file__).with_name("nginx.sh")
PORT = 8080  # as in CONFIG
SERVER = ("/usr/sbin/nginx", "-e", "stderr", "-c", f"/srv/config/{CONFIG.name}")
STARTED = "start worker process "  # nginx's message when it listens
MAX_AT_ONCE = 1_000  # requests in flight; others wait, which counts as response time
TIMEOUT = 10  # seconds until a request fails
VEGETA = "/srv/config/vegeta"
RESULTS = "/srv/state/results"


def prepare(folder: Path, target: str) -> None:
    """Write the files that nginx and vegeta read to a folder, readable for everybody. Raises `GoProgramsError`."""
    config, site = folder / "config", folder / "site"
    for made in (config, site):
        made.mkdir(mode=0o755)
    shutil.copyfile(CONFIG, config / CONFIG.name)
    shutil.copyfile(go_programs.path("vegeta"), config / "vegeta")
    (config / "vegeta").chmod(0o755)
    (config / "target").write_text(f"{target}\n")
    for size in FILES:
        (site / str(size)).write_bytes(b"x" * size)


def target(of: WebLoad, address: str) -> str:
    return f"GET http://{_socket(address)}/{of.size}"


def server_in_guest(address: str) -> list[str]:
    """nginx with the same files and configuration, for a guest where it is installed, on this guest address only."""
    config = CONFIG.read_text().replace(f"listen {PORT};", f"listen {_socket(address)};")
    return ["sh", "-c", IN_GUEST.read_text(), "nginx", config, *map(str, FILES)]


def _socket(address: str) -> str:
    return f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"


def ends(of: WebLoad, warm_up: int, duration: int) -> Ends:
    return Ends(
        servers={PORT: SERVER},
        warm_up=attack(of, warm_up, "/dev/null"),
        client=attack(of, duration),
        afterwards=[VEGETA, "encode", "-to=csv", RESULTS],
    )


def attack(of: WebLoad, seconds: int, results: str = RESULTS) -> list[str]:
    when = [f"-rate={of.rate}/s", f"-duration={seconds}s", f"-max-workers={MAX_AT_ONCE}", f"-timeout={TIMEOUT}s"]
    return [VEGETA, "attack", "-targets=/srv/config/target", *when, "-max-body=0", f"-output={results}"]
