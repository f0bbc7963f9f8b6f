"""The test agent in Dom0: runs shell commands and receives files over HTTP.

POST /?timeout=SECONDS   body: a shell command; answers its output, with the exit status in header X-Status (124:
timeout)
PUT  /PATH               body: the new content of /PATH
GET  /                   answers once Dom0 is up
"""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit


def run(command: str, timeout: float) -> "tuple[int, bytes]":
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, output
    return process.returncode, output


class Agent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(0, b"")

    def do_POST(self) -> None:
        timeout = float(parse_qs(urlsplit(self.path).query)["timeout"][0])
        self.answer(*run(self.body().decode(), timeout))

    def do_PUT(self) -> None:
        path = Path(unquote(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.body())
        self.answer(0, b"")

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, status: int, output: bytes) -> None:
        self.send_response(200)
        self.send_header("X-Status", str(status))
        self.send_header("Content-Length", str(len(output)))
        self.end_headers()
        self.wfile.write(output)

    def log_message(self, *_: object) -> None:
        """The console is only for the kernel."""


ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Agent).serve_forever()
