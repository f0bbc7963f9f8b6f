"""kvm-exporter: its command line, and which sources a scrape, a recording and a replay have.

The way of the values: /proc and cgroups -> Proxmox's names, libvirt's counters -> networks -> metrics.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Callable, Union

from prometheus_client import Metric

from virtscope.kvm import libvirt, metrics, proxmox, recorded
from virtscope.kvm.guests import Guests
from virtscope.kvm.host_files import Files, HostFiles, NotedFiles, RecordedFiles
from virtscope.kvm.libvirt import Libvirt, Virsh
from virtscope.kvm.model import Guest, Host, Total
from virtscope.kvm.processes import recorded_paths
from virtscope.kvm.proxmox import Proxmox
from virtscope.kvm.taps import Taps
from virtscope.toolkit import cli
from virtscope.toolkit.collect import Background
from virtscope.toolkit.record import Recordable, polled, record
from virtscope.toolkit.replay import Playback, View
from virtscope.toolkit.scrape import Exporter, Source
from virtscope.toolkit.totals import CPU, Counter, Counters, Totals

DEFAULT_PORT = 10297
PROXMOX_INTERVAL = 60.0  # seconds

Additional = Union[Libvirt, Proxmox]  # background sources, which add to the guests of /proc
# Adds another source's values to the guests.
AddTo = Callable[[Sequence[Guest]], "tuple[Guest, ...]"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the exporter, or its `record`, until it is stopped; exits with 1 and one line on error."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["record"]:
        _record(words[1:])
    else:
        _serve(words)


def _record(words: Sequence[str]) -> None:
    known = cli.recorder("kvm-exporter")
    _add_libvirt(known)
    given = cli.start(known, words)
    with contextlib.ExitStack() as at_end:
        sources = [recordable(host_files(given))]
        if interval := _libvirt_interval(given):
            sources.append(recordable_libvirt(interval, at_end))
        if given.procfs == "/proc" and proxmox.FOLDER.is_dir():
            sources.append(recordable_proxmox(at_end))
        record("kvm", sources, given)


def _serve(words: Sequence[str]) -> None:
    known = cli.parser("kvm-exporter", "Exposes a KVM host and its guests to Prometheus.", DEFAULT_PORT)
    cli.add_replay(known)
    _add_libvirt(known)
    given = cli.start(known, words)
    with contextlib.ExitStack() as at_end:
        if played := cli.playback("kvm", given):
            sources = replayed(played)
        else:
            additional: dict[str, Additional] = {}
            if interval := _libvirt_interval(given):
                additional["libvirt"] = Libvirt(interval)
            if given.procfs == "/proc":  # otherwise another host's
                additional["proxmox"] = Proxmox(PROXMOX_INTERVAL)
            for source in additional.values():
                at_end.enter_context(source.background)
            sources = live(host_files(given), given.procfs, additional)
        cli.serve(Exporter("kvm", sources), given)


def _add_libvirt(known: argparse.ArgumentParser) -> None:
    asking = (
        "time between two rounds of asking libvirt for block devices, exits, state and titles; 0: never (default: "
        f"{libvirt.INTERVAL:.0f}s, but never with another --path.procfs, as virsh knows this host only)"
    )
    cli.add_interval(known, "libvirt", asking, default=argparse.SUPPRESS)


def _libvirt_interval(given: argparse.Namespace) -> float:
    interval: float = getattr(given, "libvirt_interval", libvirt.INTERVAL if given.procfs == "/proc" else 0.0)
    return interval


def host_files(given: argparse.Namespace) -> HostFiles:
    """Return the files of the host named by the flags."""
    return HostFiles({"proc": given.procfs, "sys": given.sysfs})


def live(files: Files, procfs: str, additional: Mapping[str, Additional]) -> list[Source]:
    """Return the view of this host, and the additional sources by name."""
    host = HostView(files, [source.add_to for source in additional.values()])
    return [
        Source("procfs", lambda: host.families(time.monotonic()), lambda: host.origin(procfs)),
        *[
            Source(name, source.read, source.origin, required=False, background=source.background)
            for name, source in additional.items()
        ],
    ]


class HostView:
    """Makes metric families of the host's files; keeps state between scrapes."""

    def __init__(self, files: Files, add: Iterable[AddTo], *, recorded_ones: bool = False) -> None:
        self._guests = Guests(files, every_time=recorded_ones)
        self._add = add
        self._taps = Taps(files)
        self._all_guests = AllGuests()

    def origin(self, procfs: str) -> str:
        """Return the files' origin, and anything hidden there."""
        unseen = self._guests.cgroups.unseen
        return f"{procfs}; {unseen}" if unseen else procfs

    def families(self, now: float) -> list[Metric]:
        """Return the families; `now` is in seconds, of any clock. Raises like Guests.read()."""
        host = self._guests.read(now)
        guests = host.guests
        for add in self._add:
            guests = add(guests)
        host = host._replace(guests=self._taps.add_to(guests))
        return metrics.families(host._replace(total=self._all_guests.add(host, now)))


class AllGuests:
    """Counters of all guests, which keep what ended ones had counted.

    The host counts guest time to the end of each guest, so CPU time is that and what else was seen of guests.
    """

    def __init__(self) -> None:
        self._totals = Totals()
        self._guest_seconds: float | None = None  # the host's, less those of all guests, when first read
        self._unseen = 0.0  # seconds of guest time
        self._cpu_seconds = 0.0

    def add(self, host: Host, now: float) -> Total:
        """Add what the host's guests have counted since the last time; `now` is in seconds, of any clock."""
        guests = {(guest.pid, guest.started): _counters(guest) for guest in host.guests}
        self._totals.add(guests, now, cpus=host.cpus)
        values = self._totals.values
        own, served, guest = [values.get(name, 0.0) for name in ("cpu", "served_seconds", "guest_seconds")]
        if host.guest_seconds is not None:
            if self._guest_seconds is None:
                self._guest_seconds = host.guest_seconds - guest
            self._unseen = host.guest_seconds - self._guest_seconds - guest
        # The host's counter is read first, so the difference may fall by what guests compute meanwhile.
        self._cpu_seconds = max(self._cpu_seconds, own + served + self._unseen)
        return Total(self._cpu_seconds, *[values.get(name) for name in Total._fields[1:]])


def _counters(guest: Guest) -> Counters:
    """Return a guest's counters by the names of Total, its CPU time without that of kernel threads.

    Kernel threads are read less often, so theirs may grow between two scrapes by more than there was time.
    """
    counters: dict[Counter, float | None] = {
        CPU: guest.cpu_seconds - guest.served_seconds,
        ("served_seconds", None): guest.served_seconds,
        ("guest_seconds", None): guest.counted_guest_seconds,
        ("wait_seconds", None): guest.wait_seconds,
    }
    for network in guest.networks:
        counters["received_bytes", network.device] = network.receive.bytes
        counters["sent_bytes", network.device] = network.transmit.bytes
    for block in (*(guest.domain.blocks if guest.domain else ()), *guest.disks):  # of a guest only one has any
        counters["read_bytes", block.device] = block.read.bytes
        counters["written_bytes", block.device] = block.write.bytes
    return counters


def recordable(files: HostFiles | RecordedFiles) -> Recordable:
    """Return the host's files as a source for recording."""

    def read() -> Mapping[str, bytes]:
        noted = NotedFiles(files)
        guests = Guests(noted, every_time=True)
        found = guests.read(0.0).guests
        Taps(noted).add_to(found)
        kept = recorded_paths(noted.noted, [guest.pid for guest in found], guests.processes.serving_names())
        return {path: noted.noted[path] for path in kept}

    contents = "files of /proc and the cgroups of every guest: its command line, what it used; the host's interfaces"
    return Recordable("procfs", contents, read, recorded.anonymised_files)


def recordable_libvirt(interval: float, at_end: contextlib.ExitStack) -> Recordable:
    """Return libvirt as a source for recording, polled from now on; `at_end` stops that."""
    virsh = Virsh()
    contents = "output of virsh domstats: guests' names and counters, paths of their disks; their uuids and titles"
    answers = Background("libvirt", virsh.read, interval, virsh.commands)
    return polled(answers, contents, recorded.anonymised_libvirt, at_end)


def recordable_proxmox(at_end: contextlib.ExitStack) -> Recordable:
    """Return Proxmox as a source for recording, polled from now on; `at_end` stops that."""
    configured: Background[Mapping[str, bytes]] = Background("proxmox", proxmox.read, PROXMOX_INTERVAL)
    contents = "Proxmox's configuration of each guest and container, and its pools"
    return polled(configured, contents, recorded.anonymised_proxmox, at_end)


def replayed(played: Playback) -> list[Source]:
    """Return the view of a recording, like that of a host."""
    # What the last recorded answers of libvirt and Proxmox add to the guests.
    add: dict[str, AddTo] = {"libvirt": tuple, "proxmox": tuple}
    recorded_at = played.clock("procfs")

    def new_view() -> View[Mapping[str, bytes]]:
        files = RecordedFiles()
        host = HostView(files, add.values(), recorded_ones=True)

        def families(reading: Mapping[str, bytes]) -> list[Metric]:
            files.show(reading)
            return host.families(recorded_at())

        return families

    def show_libvirt(raw: libvirt.Raw) -> list[Metric]:
        answer = libvirt.understand(raw)
        add["libvirt"] = partial(libvirt.joined, answer=answer)
        return libvirt.families(answer)

    def show_proxmox(configured: Mapping[str, bytes]) -> list[Metric]:
        known = proxmox.understand(configured)
        add["proxmox"] = partial(proxmox.joined, known=known)
        return proxmox.families(known)

    sources = [played.source("procfs", "procfs", recorded.files, new_view)]
    if "libvirt" in played.header.sources:
        sources.append(
            played.source("libvirt", "libvirt", recorded.libvirt_answer, lambda: show_libvirt, required=False)
        )
    if "proxmox" in played.header.sources:
        sources.append(played.source("proxmox", "proxmox", recorded.files, lambda: show_proxmox, required=False))
    return sources
