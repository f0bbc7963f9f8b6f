"""Parsers of input that guests, hosts, programs and clients influence, with valid inputs and refusals.

To fuzz another one, add it to PARSERS. Files that only an administrator writes are in unit tests.
"""

import contextlib
import gzip
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from prometheus_client import Metric

from deploy import health, oversights
from deploy.terminal import print_table
from tests.unit.kvm import captured as kvm_captured
from virtscope.kvm import command_line, disks, limits, proxmox, taps, threads
from virtscope.kvm import libvirt as kvm_libvirt
from virtscope.kvm.exporter import replayed as replayed_kvm
from virtscope.kvm.guests import Guests
from virtscope.kvm.metrics import families as kvm_families
from virtscope.openvz import beancounters, ioacct, latency, quota, veinfo, vestat, vzlist
from virtscope.openvz.exporter import replayed as replayed_vestat
from virtscope.openvz.recorded import read as vestat_files
from virtscope.perf import perf_report
from virtscope.perf.perf_record import Xensyms
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceUnavailable
from virtscope.toolkit.exposition import Encoder
from virtscope.toolkit.hierarchy import parse_mounts
from virtscope.toolkit.pages import Refused, parse_head
from virtscope.toolkit.recording import Failed, Header, Writer
from virtscope.toolkit.replay import Playback
from virtscope.toolkit.scrape import Source
from virtscope.xen import metrics, netdev, xentop_text
from virtscope.xen.continuity import DuplicateNames
from virtscope.xen.exporter import replayed as replayed_xentop
from virtscope.xen.libxenstat import RawDomain, RawNode, RawVbd, RawVcpu
from virtscope.xen.model import Domain, Host
from virtscope.xen.netdev import RawNetwork
from virtscope.xen.recorded import Printed, Snapshot
from virtscope.xen.runstate import RawRunstate
from virtscope.xen.toolstack import joined
from virtscope.xen.toolstack import parse as parse_toolstack
from virtscope.xen.xentop import Iteration
from virtscope.xen.xentrace_file import charge
from virtscope.xen.xentrace_file import parse as parse_trace
from virtscope.xen.xl import Answer, RawToolstack

CHECKOUT = Path(__file__).resolve().parents[2]
FIXTURES = CHECKOUT / "tests/fixtures"


class Parser(NamedTuple):
    """A parser under test: it accepts any bytes, or raises one of `refusals`.

    seeds: real text to be mutated.
    largest: bytes of its largest input; lower for small formats and slow parsers, where more would show nothing.
    examples: inputs of a test run; fewer if each takes milliseconds.
    """

    name: str
    read: Callable[[bytes], object]
    seeds: list[bytes]
    refusals: tuple[type[Exception], ...] = ()
    largest: int = 128 << 10
    examples: int = 300

    def read_or_refuse(self, data: bytes) -> None:
        with contextlib.suppress(*self.refusals):
            self.read(data)


def _texts(pattern: str) -> list[bytes]:
    found = [path.read_bytes() for path in sorted(FIXTURES.glob(pattern))]
    assert found, f"no fixture matches {pattern}"
    return found


def _decoded(data: bytes) -> str:
    return data.decode(errors="backslashreplace")  # as vestat-exporter reads files


def _xentop(data: bytes) -> None:
    whole, rest = xentop_text.whole_iterations(data)
    assert b"".join(whole) + rest == data
    duplicate_names = DuplicateNames()
    for iteration in (*whole, rest):
        families = metrics.host_families(duplicate_names.tell_apart(xentop_text.parse(iteration).host))
        series = [(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples]
        assert len(set(series)) == len(series), "two samples of one series"
        Encoder().text(families)


def _toolstack(command: str, data: bytes) -> None:
    """Read it as xl's answer to this command, together with a valid answer to "list"."""
    answers = [Answer("list", _XL_LIST, "", False), Answer(command, data, "", False)]
    known = parse_toolstack(RawToolstack("xl", tuple(answers), ((1, data),)))
    domains = [
        Domain(guest.domid, guest.name, None, 0, None, 0, frozenset(), (), (), ()) for guest in known.guests.values()
    ]
    host = joined(Host(None, None, None, None, None, tuple(domains)), known)
    assert host.guests == tuple(known.guests.values())
    Encoder().text([*metrics.host_families(host), *metrics.toolstack_families(known)])


def _xentrace(data: bytes) -> None:
    """Charge all waiting, with every second domain restricted to two CPUs."""
    trace = parse_trace(data)
    charged = charge(trace, lambda domid, _vcpu: frozenset({0, 1}) if domid % 2 else None)
    vcpus = {change[4:] for change in trace.changes}
    assert 0 <= charged.cycles < 1 << 64
    assert all(cycles > 0 for cycles in charged.waits.values())
    assert sum(charged.waits.values()) <= len(vcpus) * charged.cycles * (1 + 1e-9)


def _vestat(data: bytes) -> None:
    parsed = vestat.parse(_decoded(data))
    assert len({row.ctid for row in parsed.rows}) == len(parsed.rows)
    vestat.decide(parsed.rows, None)


def _veinfo(text: str) -> int:
    parsed = veinfo.parse(text)
    return len(parsed.containers) + parsed.refused


def _page(read: Callable[[str], Iterable[Metric]]) -> Callable[[bytes], object]:
    return lambda data: Encoder().text(read(_decoded(data)))


def _few(parsed: Callable[[str], int]) -> Callable[[bytes], object]:
    """Read lines; each gives at most one value or refusal."""

    def read(data: bytes) -> None:
        assert parsed(_decoded(data)) <= data.count(b"\n") + 1

    return read


def _latency(text: str) -> int:
    parsed = latency.parse(text)
    Encoder().text(latency.families(parsed, vestat.Units("cycles", 3_000_000_000, 1000, "")))
    return len(parsed.waits) + parsed.refused


def _recording(exporter: str, replayed: Callable[[Playback], list[Source]], data: bytes) -> None:
    """Play the whole recording, with readings a second apart."""
    seconds = iter(range(1000))
    with tempfile.NamedTemporaryFile(suffix=".jsonl.gz") as file:
        Path(file.name).write_bytes(data if data.startswith(b"\x1f\x8b") else gzip.compress(data, 1))
        sources = replayed(Playback(Path(file.name), exporter, 1, False, lambda: next(seconds)))
        for _ in range(4):
            for source in sources:
                with contextlib.suppress(SourceError):
                    Encoder(on_refused=lambda _: None).text(source.read())


def _recorded(exporter: str, readings: Iterable[tuple[str, object]]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed"
        writer = Writer(path, Header(exporter, tuple(dict(readings)), 1, "", False))
        for seconds, (source, outcome) in enumerate(readings):
            writer.write(seconds, source, outcome)
        writer.close()
        return gzip.decompress(path.read_bytes())


def _vzlist(data: bytes) -> None:
    field = vzlist.parse(data)
    assert len(field.values) + field.refused <= data.count(b"\n") + 1
    Encoder().text(vzlist.families({"name": field}, field.values))


def _net_dev(data: bytes) -> None:
    assert all(len(counters) == 8 for counters in netdev.parse(data).values())
    netdev.by_domid(data, lambda _name: data)


def _kvm_command_line(data: bytes) -> None:
    """Read it as a guest's command line; the name and numbers then go onto a page."""
    command_line.parse(data, "/usr/bin/qemu-system-x86_64")
    command_line.parse(b"kvm\0-m\0001\0", config=data)
    command_line.parse(data, "cloud-hypervisor")
    _kvm_host({"proc/353/cmdline": data})


def _kvm_stat(data: bytes) -> None:
    process = threads.parse_process(data)
    assert process is None or process.guest <= process.user
    _kvm_host({"proc/353/task/360/stat": data, "proc/423/stat": data})


def _kvm_cgroup(data: bytes) -> None:
    quota, counted = limits.parse_quota(data), limits.parse_stat(data)
    assert quota is None or 0 <= quota < math.inf
    assert counted is None or 0 <= counted[2] < math.inf
    path = limits.parse_path(data)
    assert path is None or not path[0].startswith("/")
    _kvm_host({"proc/353/cgroup": data})


def _kvm_host(changed: dict[str, bytes]) -> None:
    families = kvm_families(Guests(kvm_captured.recorded(_KVM_HOST | changed), every_time=True).read(0))
    series = [(sample.name, *sorted(sample.labels.items())) for family in families for sample in family.samples]
    assert len(set(series)) == len(series), "two samples of one series"
    Encoder().text(families)


def _domstats(data: bytes) -> None:
    answer = kvm_libvirt.understand(
        kvm_libvirt.Raw(2e9, data, data, tuple(kvm_libvirt.parse_titles(data, "5e").items()))
    )
    host = Guests(kvm_captured.recorded(_KVM_HOST), every_time=True).read(0)
    joined = kvm_libvirt.joined(host.guests, answer)
    Encoder().text([*kvm_families(host._replace(guests=joined)), *kvm_libvirt.families(answer)])


def _perf_report(data: bytes) -> None:
    profile = perf_report.parse(_decoded(data), Xensyms("ffff82d040200000 t _stext\n").symbol).profile
    assert all(hits.samples >= 0 and hits.events >= 0 for hits in profile.values())
    assert all(place.symbol and len(place.symbol) <= 160 and len(place.image) <= 160 for place in profile)


def _mountinfo(data: bytes) -> None:
    with contextlib.suppress(SourceUnavailable):  # no longer about cgroups
        os.fspath(parse_mounts(data.decode(errors="surrogateescape"), "perf_event").root)


def _said_by_a_target(data: bytes) -> None:
    """Print it like `make status`, with one target that fails and one that doesn't; it can't move the cursor."""
    said = _decoded(data)
    labels = {"__address__": said, "job": "ssh", "host": said, "platform": said, "vserver": said}
    target = {"discoveredLabels": labels, "labels": labels, "lastError": said, "health": "down", "scrapeInterval": "5s"}
    active = [target, target | {"health": "up"}]
    answer = json.dumps({"data": {"activeTargets": active, "droppedTargets": [target]}}).encode()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        found, dropped = health.parse_targets(answer), health.parse_left_out(answer)
        print_table([("TARGET", "JOB", "HOST", "HEALTH"), *((t.address, t.job, t.host, t.health) for t in found)])
    said_of_them = [*printed.getvalue().split("\n"), *oversights.in_targets(found, dropped)]
    assert all(line.isprintable() for line in said_of_them)


_MALFORMED = (SourceMalformed,)

_XL = FIXTURES / "toolstack/xl-4.17-credit"
_XL_LIST = (_XL / "list -v").read_bytes()
_XL_SXP = b"(domain\n    (domid 1)\n    (uuid 586d02b6-9100-4965-a4ea-f600cf10add6)\n    (image\n        (hvm\n"
_XL_PSR = (
    b"Total RMID: 71\n"
    b"Name                                        ID        Socket 0        Socket 1\n"
    b"Total L3 Cache Size                                   30720 KB        30720 KB\n"
    b"web01                                        1         2592 KB         4032 KB\n"
)
_XL_ANSWERS = {
    "list": [_XL_LIST],
    "list -l": [(_XL / "list -l").read_bytes(), _XL_SXP],
    **{command: [(_XL / command).read_bytes()] for command in ("info", "cpupool-list", "sched-credit", "vcpu-list")},
    "psr-cmt-show cache-occupancy": [_XL_PSR],
}

_VZLIST = b'       101 web shop\n       205 -\n4f2c1f0e-7a53-4c1b-9d7e-2b6a5c0f9e11 k\xc3\xa4se "1"\n'
_NET_DEV = (
    b"Inter-|   Receive\n face |bytes    packets errs drop\n    lo: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
    b"vif3.0-emu:18446744073709551615 498 0 2 0 0 0 0   213480    1402    0    0    0     0       0          0\n"
)
_HEADS = [
    b"GET /metrics HTTP/1.1\r\nHost: xen1:10290\r\nAccept-Encoding: gzip\r\n\r\n",
    b"POST / HTTP/1.0\nContent-Length: 60\nConnection: keep-alive, close\n\n",
]
_NETWORK = RawNetwork(0, *range(8))
_VBD = RawVbd(1, 51712, 0, 1, 2, 3, 4, False)
_DOMAIN = RawDomain(
    (RawVcpu(1, 10**9),), (_NETWORK,), (_VBD,), 1, b"web", 10**9, 2**28, 2**64 - 1, 0, *[0, 0, 0, 0, 0, 1]
)
_NODE = RawNode((_DOMAIN,), b"4.17.7", 4, 2_400_000_000, 2**34, 2**30)
_RAW_TOOLSTACK = RawToolstack(
    "/usr/sbin/xl",
    tuple(
        Answer(path.name.removesuffix(" -v"), path.read_bytes(), "", False)
        for path in sorted((FIXTURES / "toolstack/xl-4.17-credit").iterdir())
    ),
)
_SNAPSHOTS = (Snapshot(_NODE, Failed("unavailable", "no")), Snapshot(_NODE, (RawRunstate(1, 1, 0, (1,) * 6, 7),)))
_RECORDINGS = [
    _recorded("xentop", [("xl", _RAW_TOOLSTACK), *(("libxenstat", each) for each in _SNAPSHOTS)] * 2),
    _recorded("xentop", [("xentop", Printed(Iteration(each, 1.5, 1), "4.17")) for each in _texts("xentop/*.txt")]),
]
_OPENVZ = FIXTURES / "openvz/x86_64-2.6.32-nanoseconds/proc"
_RECORDED_FILES = _recorded("vestat", [("procfs", vestat_files(_OPENVZ))] * 2)
_KVM_HOST = kvm_captured.files(kvm_captured.DEBIAN_12)
_KVM_LINES = [text for path, text in _KVM_HOST.items() if path.endswith("/cmdline")]
_KVM_STATS = [text for path, text in _KVM_HOST.items() if path.endswith("/stat") and path != "proc/stat"]
_KVM_CGROUPS = [b"4:cpu,cpuacct:/a\n0::/../b.scope/libvirt/emulator\n", b"150000 100000\n"]
_KVM_CGROUPS += [text for path, text in _KVM_HOST.items() if path.endswith("libvirt/cpu.stat")][:1]
_KVM_RAW = kvm_libvirt.Raw(2e9, _texts("kvm/*/domstats-t0.txt")[0], b"", (("6325b343", b"web"),))
_KVM_RECORDING = _recorded(
    "kvm",
    [("libvirt", _KVM_RAW), ("proxmox", {"100": b"name: a\n", "lxc/101": b"hostname: b\n"}), ("procfs", _KVM_HOST)],
)
_VIRSH_TITLES = (
    b"== 5e 6325b343-01a5-47ab-b796-afc750348cfe metadata ==<name>a</name>\n"
    b"== 5e 6325b343-01a5-47ab-b796-afc750348cfe title ==b\n6325b343-01a5-47ab-b796-afc750348cfe db_1.prod\n"
)

_MOUNTS = (
    b"31 23 0:28 / /c rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
    b"32 23 0:29 /../.. /a\\040b rw - cgroup none rw,perf_event\n"
)

_LAST_ERROR = 'Get "http://192.0.2.1:10290/metrics": invalid \x1b[2J \u202e header "x"\n'


PARSERS = [
    Parser("perf-report", _perf_report, _texts("profiles/perf-report*.txt"), _MALFORMED),
    Parser("mountinfo", _mountinfo, [_MOUNTS], _MALFORMED),
    Parser("xentop", _xentop, _texts("xentop/*.txt"), _MALFORMED),
    *(
        Parser(f"xl-{command.replace(' ', '-')}", partial(_toolstack, command), seeds, _MALFORMED)
        for command, seeds in _XL_ANSWERS.items()
    ),
    Parser("xentrace", _xentrace, _texts("xentrace/*.bin"), _MALFORMED, largest=32 << 10),
    Parser("net-dev", _net_dev, [_NET_DEV, b"backend/vif/3/0\n"], _MALFORMED),
    Parser("qemu-command-line", _kvm_command_line, _KVM_LINES, largest=32 << 10, examples=100),
    Parser("qemu-stat", _kvm_stat, _KVM_STATS, largest=4 << 10, examples=100),
    Parser("qemu-cgroup", _kvm_cgroup, _KVM_CGROUPS, largest=16 << 10, examples=100),
    Parser(
        "kvm-net-dev",
        lambda data: [taps.network(*each) for each in taps.parse(data).items()],
        [_NET_DEV, *_texts("kvm/*/net-dev-t1.txt")],
    ),
    Parser("io.stat", disks.parse, [b"8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n"]),
    Parser("domstats", _domstats, [*_texts("kvm/*/domstats-t0.txt"), _VIRSH_TITLES], largest=64 << 10, examples=100),
    Parser("proxmox-configuration", proxmox.parse, [b"#a%3A b\nname: web01\nnet0: x=1\n\n[old]\nname: old\n"]),
    Parser("proxmox-pools", proxmox.parse_pools, [b"user:root@pam:1:0:::::\npool:sales:a%3A:100,101:local:\n"]),
    Parser("vestat", _vestat, _texts("openvz/*/proc/vz/vestat"), _MALFORMED),
    Parser("vz-stats", lambda data: vestat.parse_stats(_decoded(data)), _texts("openvz/*/proc/vz/stats")),
    Parser("veinfo", _few(_veinfo), _texts("openvz/*/proc/vz/veinfo")),
    Parser(
        "beancounters",
        _page(lambda text: beancounters.Families().of(beancounters.parse(text))),
        _texts("openvz/*/proc/*/resources"),
        _MALFORMED,
    ),
    Parser(
        "ioacct",
        _page(lambda text: ioacct.families(ioacct.Ioaccts({"101": ioacct.parse(text)}, 0))),
        _texts("openvz/*/proc/bc/*/ioacct"),
        _MALFORMED,
    ),
    Parser(
        "vzquota", _page(lambda text: quota.families(quota.parse(text))), _texts("openvz/*/proc/vz/vzquota"), _MALFORMED
    ),
    Parser("vz-latency", _few(_latency), _texts("openvz/*/proc/vz/latency")),
    *(
        Parser(name, partial(_recording, exporter, replayed), seeds, (SourceError,), examples=100)
        for name, exporter, replayed, seeds in (
            ("kvm-recording", "kvm", replayed_kvm, [_KVM_RECORDING]),
            ("xentop-recording", "xentop", replayed_xentop, _RECORDINGS),
            ("vestat-recording", "vestat", replayed_vestat, [_RECORDED_FILES]),
            ("recording-file", "vestat", replayed_vestat, [gzip.compress(_RECORDED_FILES)]),
        )
    ),
    Parser("vzlist", _vzlist, [_VZLIST], largest=32 << 10),
    Parser("request-head", parse_head, _HEADS, (Refused,), largest=64 << 10),
    Parser("said-by-a-target", _said_by_a_target, [_LAST_ERROR.encode()], largest=16 << 10),
]
