"""The file of `--web.config.file`: TLS and authentication, in the format of Prometheus's exporter-toolkit.

The format (https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md) has four sections, all
optional; an empty file is valid and switches nothing on:

    tls_server_config    tls.py       certificate and key, client certificates, versions, cipher suites
    http_server_config   config.py    response headers; http2 means nothing, as we speak HTTP/1.1 only
    basic_auth_users     auth.py      name: bcrypt hash
    rate_limit           refused      see below

config.py puts them together and keeps up with changes of the files.

Files for Prometheus's own exporters are valid here, except for unsafe or unsupported settings, each with its own error:
TLS 1.0 and 1.1; a client certificate that is asked for and not verified; client certificates without a CA; cipher
suites without forward secrecy; more than one curve, as Python's ssl holds a context to one; TLS settings without a
certificate; a certificate, key or CA given both inline and by file. Passwords over 72 bytes, of which bcrypt sees only
the first 72, never match.

A rate_limit is refused, too. It is one token bucket for all clients, checked before passwords: a stranger could empty
it, and Prometheus would get the 429. CPU and memory are already limited per client (server.py, answering.py, auth.py).
"""

from virtscope.toolkit.webconfig.auth import TooManyGuesses
from virtscope.toolkit.webconfig.config import WebConfig

__all__ = ["TooManyGuesses", "WebConfig"]
