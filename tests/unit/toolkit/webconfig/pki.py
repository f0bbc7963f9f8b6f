"""A host's certificates and keys from a CA made for the test run, and real handshakes over a socket pair."""

import base64
import socket
import ssl
import threading
from pathlib import Path
from typing import NamedTuple

import bcrypt
import trustme

from virtscope.toolkit.webconfig import WebConfig

ALICES_PASSWORD = "correct horse"
ALICES_HASH = bcrypt.hashpw(ALICES_PASSWORD.encode(), b"$2b$04$" + b"virtscope.tests.saltuO").decode()

TLS = "tls_server_config: {cert_file: server.pem, key_file: server.key"
CLIENTS = f"{TLS}, client_ca_file: ca.pem, client_auth_type: RequireAndVerifyClientCert"


class Pki:
    """A folder as an administrator has it, with certificates, keys and the configuration."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.ca = trustme.CA()
        self.intermediate = self.ca.create_child_ca()
        self.foreign_ca = trustme.CA()
        self.ca.cert_pem.write_to_path(folder / "ca.pem")
        self.intermediate.cert_pem.write_to_path(folder / "intermediate.pem")
        self.renew()

    def renew(self) -> None:
        """Replace the server's certificate and key, each atomically."""
        self.issue("server", self.ca, "localhost")

    def issue(self, name: str, ca: trustme.CA, identity: str) -> None:
        issued = ca.issue_cert(identity)
        self.replace(f"{name}.key", issued.private_key_pem.bytes())
        self.replace(f"{name}.pem", issued.cert_chain_pems[0].bytes())

    def replace(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        new.replace(self.folder / name)

    def write(self, text: str) -> str:
        self.replace("web.yml", text.encode())
        return str(self.folder / "web.yml")

    def load(self, text: str) -> WebConfig:
        return WebConfig(self.write(text))

    def inline(self, name: str) -> str:
        """A PEM file as the rest of a line of YAML."""
        return '"# für localhost\\n' + (self.folder / name).read_text().replace("\n", "\\n") + '"'

    def client(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """A client's settings, trusting the CA and presenting `certificate`."""
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if certificate:
            certificate.configure_cert(context)
        return context


class Answer(NamedTuple):
    """A client's result: the server's answer ("welcome" or "go away") and the TLS parameters."""

    word: str
    version: str | None
    cipher: str
    alpn: str | None
    serial: str


def connect(web: WebConfig, client: ssl.SSLContext) -> Answer:
    """Handshake like the exporters' server; raises OSError (ssl.SSLError is one) if either side refuses."""
    server_end, client_end = socket.socketpair()

    def serve() -> None:
        context = web.ssl_context()
        assert context
        try:
            with context.wrap_socket(server_end, server_side=True) as connection:
                connection.sendall(b"welcome" if web.peer_allowed(connection.getpeercert()) else b"go away")
        except OSError:
            server_end.close()

    for end in (server_end, client_end):
        end.settimeout(20)
    server = threading.Thread(target=serve)
    server.start()
    try:
        with client.wrap_socket(client_end, server_hostname="localhost") as connection:
            word = connection.recv(16).decode()
            if not word:
                raise ConnectionResetError("the server closed the connection")
            serial, cipher = (connection.getpeercert() or {})["serialNumber"], (connection.cipher() or ("",))[0]
            return Answer(word, connection.version(), cipher, connection.selected_alpn_protocol(), str(serial))
    finally:
        client_end.close()
        server.join(20)


def basic(user: str | bytes, password: str | bytes) -> str:
    raw = b":".join(part.encode() if isinstance(part, str) else part for part in (user, password))
    return "Basic " + base64.b64encode(raw).decode()
