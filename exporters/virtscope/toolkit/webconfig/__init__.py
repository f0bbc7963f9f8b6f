"""Who may scrape, and over what: the file of `--web.config.file`, in the format of Prometheus's exporter-toolkit.

The format (https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md) has four sections, all
optional; an empty file is valid and switches nothing on. Each has a module, which reads it and does what it asks for:

    tls_server_config    tls.py, certificates.py    certificate and key, client certificates, versions, cipher suites
    http_server_config   headers.py                 response headers; http2 means nothing, as we speak HTTP/1.1 only
    basic_auth_users     passwords.py               name: bcrypt hash
    rate_limit           rate_limit.py              interval and burst of a token bucket over all requests

config.py puts them together and keeps up with changes of the files. Imports go one way:

    config -> tls -> certificates, headers, passwords, rate_limit -> document -> files

A file that Prometheus's own exporters take is taken here, save for what would be unsafe or can't be kept, each refused
with its own line: TLS 1.0 and 1.1; a client certificate that is asked for and not verified; client certificates without
a CA; cipher suites without forward secrecy; more than one curve, as Python's ssl holds a context to one; TLS settings
without a certificate; a certificate, key or CA given both inline and by file; a rate limit that would refuse or admit
every request. Passwords over 72 bytes, of which bcrypt sees only the first 72, never match.
"""

from virtscope.toolkit.webconfig.config import WebConfig
from virtscope.toolkit.webconfig.document import WebConfigError
from virtscope.toolkit.webconfig.passwords import TooManyGuesses

__all__ = ["TooManyGuesses", "WebConfig", "WebConfigError"]
