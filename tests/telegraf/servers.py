"""The servers monitored by the sensors, from Debian's unpacked packages, for the duration of a test."""

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy import programs
from tests.support.needs import missing
from tests.support.ports import free_port
from tests.support.waiting import wait_for

APACHE = """\
ServerRoot {root}/usr/lib/apache2
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {folder}/pid
ErrorLog {folder}/error.log
Mutex pthread
{modules}
DocumentRoot {folder}/site
<Location /server-status>
  SetHandler server-status
</Location>
<Location /private>
  AuthType Basic
  AuthName "anybody"
  AuthBasicProvider anon
  Anonymous *
  Anonymous_NoUserID on
  Anonymous_MustGiveEmail off
  Require valid-user
</Location>
KeepAliveTimeout 1
GracefulShutdownTimeout 1
LogFormat "%h %l %u %t \\"%r\\" %>s %b %D" common
LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\" %D" combined
LogFormat "%v:%p %h %l %u %t \\"%r\\" %>s %O \\"%{{Referer}}i\\" \\"%{{User-Agent}}i\\" %D" vhost_combined
CustomLog {folder}/common.log common
CustomLog {folder}/combined.log combined
CustomLog {folder}/vhost_combined.log vhost_combined
"""

NGINX = """\
daemon off;
user root root;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
  log_format common_time '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time';
  log_format combined_time '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                           '"$http_referer" "$http_user_agent" $request_time';
  log_format main_time '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                       '"$http_referer" "$http_user_agent" "$http_x_forwarded_for" $request_time';
  log_format named '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                   '"$http_referer" "$http_user_agent" "$http_x_forwarded_for" rt=$request_time '
                   'uct="$upstream_connect_time" uht="$upstream_header_time" urt=$upstream_response_time';
  lingering_close off;
  access_log {folder}/common.log common_time;
  access_log {folder}/combined.log combined_time;
  access_log {folder}/main.log main_time;
  access_log {folder}/named.log named;
  {temporary}
  server {{
    listen 127.0.0.1:{port};
    root {folder}/site;
    location = /nginx_status {{
      stub_status;
      access_log off;
    }}
  }}
}}
"""


@contextlib.contextmanager
def apache(folder: Path) -> Iterator[int]:
    """Apache with one page; the port. Its logs are common.log, combined.log and vhost_combined.log in the folder."""
    root, port = _unpacked(programs.LAB), free_port()
    _site(folder)
    names = ("mpm_event", "auth_basic", "authn_anon", "authn_core", "authz_core", "authz_user", "status")
    modules = "\n".join(f"LoadModule {name}_module modules/mod_{name}.so" for name in names)
    (folder / "apache.conf").write_text(APACHE.format(root=root, folder=folder, port=port, modules=modules))
    command = [f"{root}/usr/sbin/apache2", "-D", "FOREGROUND", "-f", f"{folder}/apache.conf"]
    with _running(command, root, folder, ("127.0.0.1", port)):
        yield port


@contextlib.contextmanager
def nginx(folder: Path) -> Iterator[int]:
    """nginx with one page; the port. Its logs are common.log, combined.log, main.log and named.log in the folder."""
    root, port = _unpacked(programs.TESTS), free_port()
    _site(folder)
    temporary = " ".join(
        f"{of}_temp_path {folder}/{of};" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, temporary=temporary))
    command = [f"{root}/usr/sbin/nginx", "-c", f"{folder}/nginx.conf", "-e", f"{folder}/error.log"]
    with _running(command, root, folder, ("127.0.0.1", port)):
        yield port


@contextlib.contextmanager
def mariadb(folder: Path) -> Iterator[Path]:
    """MariaDB that trusts everybody; its socket."""
    root = _unpacked(programs.LAB)
    (folder / "data").mkdir(parents=True)
    [messages] = root.glob("usr/share/m*/english")
    options = ["--no-defaults", f"--datadir={folder}/data", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
    options += ["--skip-networking", "--skip-grant-tables", f"--lc-messages-dir={messages.parent}"]
    options += ["--innodb-buffer-pool-size=8M", "--innodb-log-file-size=4M", "--innodb-use-native-aio=off"]
    if os.geteuid() == 0:
        options.append("--user=root")
    with _running([f"{root}/usr/sbin/mariadbd", *options], root, folder, folder / "socket"):
        yield folder / "socket"


@contextlib.contextmanager
def postgresql(folder: Path) -> Iterator[Path]:
    """PostgreSQL that trusts everybody; the folder of its socket."""
    root = _unpacked(programs.TESTS)
    (folder / "socket").mkdir(parents=True)
    [binaries] = root.glob("usr/lib/postgresql/*/bin")
    initdb = [*_not_as_root(), f"{binaries}/initdb", f"--pgdata={folder}/data", "--auth=trust", "--no-sync"]
    initdb += ["--username=telegraf", "--encoding=UTF8", "--locale=C"]
    made = subprocess.run(initdb, env=_environment(root), check=False, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    command = [*_not_as_root(), f"{binaries}/postgres", "-D", f"{folder}/data", "-c", "listen_addresses=", "-F"]
    command += ["-c", f"unix_socket_directories={folder}/socket", "-c", "jit=off", "-c", "port=5432"]
    with _running(command, root, folder, folder / "socket" / ".s.PGSQL.5432"):
        yield folder / "socket"


def send(port: int, request: bytes) -> None:
    """Send bytes to a web server, and wait until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        with contextlib.suppress(ConnectionError):  # it may close early
            while connection.recv(65536):
                pass


def _unpacked(packages: programs.Packages) -> Path:
    try:
        return programs.root(packages)
    except programs.ProgramsError as error:
        missing(f"no packages for {packages.name}: {error}")


def _site(folder: Path) -> None:
    (folder / "site").mkdir(parents=True)
    for page in ("index.html", "private"):
        (folder / "site" / page).write_text("<html>hello</html>")
    for path in (folder, folder / "site"):
        path.chmod(0o755)


def _environment(root: Path) -> dict[str, str]:
    """The server's own libraries, which may be missing on this machine."""
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(str(path) for path in root.glob("usr/lib/*-linux-gnu"))}


def _not_as_root() -> list[str]:
    """A command prefix for servers that refuse to run as root: they see root as nobody."""
    return ["unshare", "--user", "--map-user=65534", "--map-group=65534"] if os.geteuid() == 0 else []


@contextlib.contextmanager
def _running(command: Sequence[str], root: Path, folder: Path, address: Path | tuple[str, int]) -> Iterator[None]:
    """Run a server in the foreground; the block starts when it accepts connections."""
    log = folder / "output"
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=_environment(root), cwd=folder, stdout=output, stderr=output)
    try:
        wait_for(lambda: process.poll() is not None or _connect(address), 60, explain=log.read_text, not_yet=(OSError,))
        assert process.poll() is None, f"{command[0]} does not start:\n{log.read_text(errors='replace')}"
        yield
    finally:
        process.terminate()
        process.wait(30)


def _connect(address: Path | tuple[str, int]) -> bool:
    with socket.socket(socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET) as connection:
        connection.connect(str(address) if isinstance(address, Path) else address)
    return True
