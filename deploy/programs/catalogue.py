"""Which third-party programs the stack, the lab and the tests run, and where each can come from.

A release is what its authors publish, pinned by version and SHA-256. Packages are taken as the distribution's mirrors
serve them today, at a minimum version. `deploy/programs/__init__.py` takes the first that can be had.

To take a newer release: change the version, then the checksums to those of its authors' `sha256sums.txt` (Grafana:
the archive's URL with .sha256 behind it; Python: `SHA256SUMS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Release:
    """An official release: one file for each architecture, a .tar.gz with one folder, or a bare program."""

    version: str
    url: str  # {version} and {architecture} stand for these, {machine} for what uname calls the latter
    sha256: Mapping[str, str]  # by architecture, as Debian calls it
    files: Mapping[str, str]  # program: its path below the archive's one folder; of a bare program, its name


@dataclass(frozen=True)
class Packages:
    """Packages of the distribution, unpacked together into one folder as if it were `/`."""

    name: str
    names: tuple[str, ...]  # those that the distribution doesn't have are left out
    files: Mapping[str, str] = field(default_factory=dict)  # program: its path in there
    minimum: Mapping[str, str] = field(default_factory=dict)  # package: the oldest version that will do
    follows: str = ""  # and, of what these depend on, what this regular expression matches
    non_free: bool = False  # of Debian's component non-free, Ubuntu's multiverse; the machine's own sources stay


@dataclass(frozen=True)
class Suite:
    """Programs that come together, and whence, best first."""

    name: str
    title: str
    release: Release
    packages: Packages | None = None  # None: no distribution has it
    built_from_go: bool = False  # deploy/go_programs.py can, where nothing else can be had


_GITHUB = (
    "https://github.com/prometheus/{0}/releases/download/v{{version}}/{0}-{{version}}.linux-{{architecture}}.tar.gz"
)

PROMETHEUS = Suite(
    "prometheus",
    "Prometheus",
    Release(
        "3.13.4",  # of the long-term line, supported until July 2027
        _GITHUB.format("prometheus"),
        {
            "amd64": "87f21a66f96c597a189cef8d640e8921b621fc17a9feff707c332c4f3b3ddd56",
            "arm64": "ffa86c7d6e7f7e7dc8a79c81c5c2a6c9164464b79335f25613f4327c863b8489",
        },
        {"prometheus": "prometheus", "promtool": "promtool"},
    ),
    Packages(
        "prometheus",
        (
            "prometheus",
            "promtool",  # in `prometheus` before Debian 13
            # What Prometheus 2's web pages load; the package links to these, relative to itself.
            "fonts-glyphicons-halflings",
            "libjs-bootstrap4",
            "libjs-d3",
            "libjs-eonasdan-bootstrap-datetimepicker",
            "libjs-jquery",
            "libjs-jquery-hotkeys",
            "libjs-moment",
            "libjs-moment-timezone",
            "libjs-mustache",
            "libjs-popper.js",
            "libjs-rickshaw",
        ),
        {"prometheus": "usr/bin/prometheus", "promtool": "usr/bin/promtool"},
        {"prometheus": "2.42"},  # the first with keep_firing_for
    ),
)

ALERTMANAGER = Suite(
    "alertmanager",
    "Alertmanager",
    Release(
        "0.34.1",
        _GITHUB.format("alertmanager"),
        {
            "amd64": "265b9d1e55ef0d5306a436018af6d2b686c2ce051f03d968f7464ecb1372a7e8",
            "arm64": "d98d6cbaf52151c7e76e24355fec88b11cebcb9875d4cdd8b76ddce7a7e5535c",
        },
        {"alertmanager": "alertmanager", "amtool": "amtool"},
    ),
    Packages(
        "alertmanager",
        ("prometheus-alertmanager",),
        {"alertmanager": "usr/bin/prometheus-alertmanager", "amtool": "usr/bin/amtool"},
        {"prometheus-alertmanager": "0.25"},
    ),
)

NODE_EXPORTER = Suite(
    "node_exporter",
    "node_exporter",
    Release(
        "1.12.1",
        _GITHUB.format("node_exporter"),
        {
            "amd64": "b51d8a76aa2a9156a55d501aca6276fae09e262259a5e4e831d2c2222f084e63",
            "arm64": "ad35b605f9954b9f1ffddf5ba054bdc5a98d790b9eae5291e1eeb83f1ecbd0e7",
        },
        {"node_exporter": "node_exporter"},
    ),
    Packages(
        "node_exporter",
        ("prometheus-node-exporter",),
        {"node_exporter": "usr/bin/prometheus-node-exporter"},
        {"prometheus-node-exporter": "1.5"},
    ),
)

GRAFANA = Suite(
    "grafana",
    "Grafana",
    Release(
        "13.2.3",
        # With the build's number: archives under shorter URLs have been replaced after their release.
        "https://dl.grafana.com/grafana/release/{version}/grafana_{version}_36482603486_linux_{architecture}.tar.gz",
        {
            "amd64": "6107ad27016296aac38e0d7ffa8753ab540b5541ad27e94790f771289d733235",
            "arm64": "a2a41b960ba4c25e83140484e48813730d3c81891a128439a2a9d2df6eb3840e",
        },
        {"grafana": "bin/grafana"},
    ),
)

TELEGRAF = Suite(
    "telegraf",
    "Telegraf",
    Release(
        "1.39.2",  # newer ones: no checksum for arm64 is known
        "https://dl.influxdata.com/telegraf/releases/telegraf-{version}_linux_{architecture}.tar.gz",
        {
            "amd64": "3ecf733bec389b8a0e1072f134ce379d79efe0d3caf984c164bd4cfc515a86d6",
            "arm64": "7626df978e86b4788aed477f7acb4528ff517b506c721f1bd4c9ac77464a93e5",
        },
        {"telegraf": "usr/bin/telegraf"},
    ),
    built_from_go=True,
)

CADVISOR = Suite(
    "cadvisor",
    "cAdvisor",
    Release(
        "0.60.6",
        "https://github.com/google/cadvisor/releases/download/v{version}/cadvisor-v{version}-linux-{architecture}",
        {
            "amd64": "c381c2c911bc43d465d1e0eaff60f96d58c031c409bddf06da0316fdde8a9296",
            "arm64": "d788162d9deea8aa024fd79a0a685df90a987362d8f0e580f822474c1fbef7f9",
        },
        {"cadvisor": "cadvisor"},
    ),
    built_from_go=True,
)

SUITES = (PROMETHEUS, ALERTMANAGER, NODE_EXPORTER, GRAFANA, TELEGRAF, CADVISOR)

# The Python of `make bundle`. It runs with glibc 2.17 or newer, from any folder.
PYTHON = Release(
    "3.13.15",
    "https://github.com/astral-sh/python-build-standalone/releases/download/20260901/"
    "cpython-{version}%2B20260901-{machine}-unknown-linux-gnu-install_only_stripped.tar.gz",
    {
        "amd64": "8a689a077337bea6d1c4bc0b7df1d52fcaa28f5f67e50df8bf417c1e3f9d8874",
        "arm64": "01ce0ce9189feaead3298abf10d4efe998c55a489b3d5d38ca4f83dda7e7977e",
    },
    {"python3": "bin/python3"},
)

# The lab's tiers see these packages and nothing else of the machine.
LAB = Packages(
    "lab",
    ("apache2-bin", "mariadb-server-core", "php-fpm", "php-mysql", "tzdata"),
    follows=r"z?lib.+|php[\d.]+-(common|fpm|mysql|opcache)",
)

# What the lab's study of influence factors runs in virtual servers. fio is linked against a client of every storage.
BENCHMARKS = Packages("benchmarks", ("fio", "iperf3", "sysbench"), follows=r"z?lib.+")

# What the lab's study of network costs asks for static files.
WEB_SERVER = Packages("web-server", ("nginx",), follows=r"z?lib.+|nginx-core")

# For the lab's benchmark suites. Their C library is the machine's own; of stress-ng's libraries those are left out that
# are only for what it draws.
LMBENCH = Packages(
    "lmbench", ("lmbench",), follows=r"lib(tirpc|gssapi-krb5|krb5|k5crypto|com-err|keyutils).*", non_free=True
)
STRESS_NG = Packages("stress-ng", ("stress-ng",), follows=r"z?lib(?!c6|gcc|llvm|egl-mesa|gl1-mesa|glx).+")

# For the tests of telegraf/sensors.
TESTS = Packages(
    "tests",
    ("nginx", "postgresql"),
    follows=r"z?lib(?!llvm).+|postgresql-\d+|nginx-core",  # PostgreSQL loads LLVM for its JIT alone, which is off
)
