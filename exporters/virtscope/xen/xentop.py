"""`xentop -b` as one long-lived child: the fallback without libxenstat, with CPU time in whole seconds.

The child prints an iteration each second. A thread reads it, so that a scrape never waits.
- An iteration is complete when the next header has arrived. Only complete ones are served, one to two intervals old.
- A child that dies is restarted with growing delays, from 1 to 20 seconds. A child without a complete iteration for
  long (it hangs, or prints something else) is killed first. Ends and restarts are logged; repeated ends of the same
  kind are one line.
- The child ends with the exporter: close() kills it, and if the exporter is killed, the child's next line goes into a
  closed pipe, which ends it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import subprocess
import threading
import time
from typing import NamedTuple

from virtscope.toolkit.bounded import kill_group, last_line, start_program
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable
from virtscope.xen.hypervisor import find_program
from virtscope.xen.xentop_text import cut_header, whole_iterations

log = logging.getLogger(__name__)

INTERVAL = 1  # seconds, the minimum of xentop's -d
MAX_AGE = 5.0  # seconds: an older iteration is not served
HUNG = 10.0  # seconds without a complete iteration after which the child is killed
MAX_PAUSE = 20.0  # seconds between two starts; a child that runs as long resets the pauses
MAX_SIZE = 4 << 20  # bytes of an iteration; a thousand domains with all their details are under one MiB

_TOO_MANY_HEADERS = (
    "xentop prints more headers than iterations, so that a part would pass for the whole: drop -r if a script adds it, "
    "rename the domain whose name holds a header on a line of its own, or take --source=libxenstat"
)
_STOPPED = SourceTimeout(f"no whole iteration of xentop for {MAX_AGE:.0f} s; is it stopped?")


class Iteration(NamedTuple):
    """The last complete iteration: its text, its maximum age in seconds, and the number of xentop's starts until then.

    `starts` is None if each iteration is of another xentop.
    """

    text: bytes
    age: float
    starts: int | None


class Xentop:
    """Keeps a xentop running, from start() to close(), and returns its last complete iteration."""

    def __init__(self, program: str) -> None:
        """`program` is xentop's path; see hypervisor.find_program()."""
        self._program = program
        self._options = ["-b", "-f", "-n", "-x", "-v"]
        self._lock = threading.Lock()  # guards the fields below
        self._latest = b""
        self._latest_since = 0.0
        self._failure: SourceError = SourceTimeout("xentop has printed no whole iteration yet; try again in 3 seconds")
        self._starts = 0
        self._ended_by = ""  # logged reason of the last end; "" after an iteration
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="xentop child", daemon=True)

    def start(self) -> None:
        """Start the thread that runs the child."""
        self._keeper.start()

    def close(self) -> None:
        """End the child permanently."""
        self._closed.set()
        with self._lock:
            if self._child:
                kill_group(self._child)
        self._keeper.join(5)  # reaps the child; an unkillable one must not block the exporter

    def read(self) -> Iteration:
        """Return the last complete iteration, without waiting.

        Without a recent one, raises SourceTimeout if xentop hangs, SourceMalformed if it prints no iterations,
        SourceError if it ended, SourceUnavailable if it can't be started.
        """
        with self._lock:
            age = time.monotonic() - self._latest_since
            if self._latest and age <= MAX_AGE:
                return Iteration(self._latest, age, self._starts)
            failure = self._failure
        # A new exception each time: raising the same one repeatedly would accumulate tracebacks.
        raise type(failure)(str(failure))

    def origin(self) -> str:
        """Return the path of the xentop in use."""
        return self._program

    def _keep(self) -> None:
        pause = 1.0
        while not self._closed.is_set():
            begun = time.monotonic()
            fault: Exception | None = None
            try:
                failure = self._run()
            except Exception as error:  # a bug here must not end the thread
                failure, fault = SourceError(f"{type(error).__name__}: {error}"), error
            if self._closed.is_set():
                return
            pause = 1.0 if time.monotonic() - begun >= MAX_PAUSE else pause
            with self._lock:
                self._failure = failure
            if self._ended_by != str(failure):
                self._ended_by = str(failure)
                log.warning(
                    "xentop ended", extra={"fields": {"err": failure, "again_in_seconds": pause}}, exc_info=fault
                )
            self._closed.wait(pause)
            pause = min(pause * 2, MAX_PAUSE)

    def _run(self) -> SourceError:
        """Run a child to its end, reading its output; return the reason of its end."""
        begun = time.monotonic()
        try:
            child = self._start()
        except OSError as error:
            tried = self._program
            self._program = find_program("xentop") or tried  # an upgrade may have moved it
            return SourceUnavailable(f"{tried} can't be started: {error.strerror}")
        if child is None:
            return SourceError("closed")
        failure: SourceError | None = None
        complaints = bytearray()
        try:
            failure = self._read(child, begun, complaints)
        finally:
            with self._lock:
                self._child = None
            kill_group(child)
            status = child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe:
                    pipe.close()
        said = last_line(bytes(complaints))
        if failure is None and "-f" in self._options and "invalid option" in said and "f" in said[-4:]:
            self._options.remove("-f")  # before Xen 4.0; names may be cut then
        if failure is None:
            end = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            failure = SourceError(f"{self._program} {end}" + (f": {said}" if said else ""))
        elif said:
            failure = type(failure)(f"{failure}; its last words: {said}")
        return failure

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Start a child, unless closed; raises OSError."""
        with self._lock:
            if self._closed.is_set():
                return None
            self._child = start_program([self._program, *self._options, "-d", str(INTERVAL)])
            self._starts += 1
            return self._child

    def _read(self, child: subprocess.Popen[bytes], begun: float, complaints: bytearray) -> SourceError | None:
        """Read until the child closes its output (returns None) or prints no complete iteration in time.

        `begun` is a moment before the child's start. It prints a header at once, and one after each interval: if there
        are more, headers don't begin iterations. `complaints` gets the end of its standard error.
        """
        assert child.stdout
        assert child.stderr
        text = b""
        iterations = 0
        since = time.monotonic()  # a moment before the header in `text` was printed
        deadline = time.monotonic() + HUNG
        with selectors.DefaultSelector() as pipes:
            pipes.register(child.stdout, selectors.EVENT_READ)
            pipes.register(child.stderr, selectors.EVENT_READ)
            # Data of a read was printed after the previous read, which emptied the pipe. The moment of waking up would
            # be too late: the exporter may have been stopped in between.
            emptied = time.monotonic()
            while (left := deadline - time.monotonic()) > 0:
                ready = [key.fileobj for key, _ in pipes.select(left)]
                if child.stderr in ready:
                    complaint = os.read(child.stderr.fileno(), 65536)
                    complaints[:] = (complaints + complaint)[-4096:]
                    if not complaint:
                        pipes.unregister(child.stderr)
                if child.stdout not in ready:
                    continue
                chunk = os.read(child.stdout.fileno(), 65536)
                if not chunk:
                    with contextlib.suppress(BlockingIOError):
                        os.set_blocking(child.stderr.fileno(), False)
                        complaints += os.read(child.stderr.fileno(), 65536)
                    return None
                text += chunk
                # A header ends in SSID and a line break; searching the whole text at each read would cost too much.
                whole, text = whole_iterations(text) if b"SSID" in text[-len(chunk) - 6 :] else ([], text)
                iterations += len(whole)
                if iterations > (time.monotonic() - begun) / INTERVAL + 0.5:
                    return SourceMalformed(_TOO_MANY_HEADERS)
                if whole:
                    if self._ended_by:
                        self._ended_by = ""
                        log.info("xentop restarted", extra={"fields": {"program": self._program}})
                    with self._lock:
                        self._latest, self._latest_since = whole[-1], since if len(whole) == 1 else emptied
                        self._failure = _STOPPED
                    since = emptied
                    deadline = time.monotonic() + HUNG
                if len(text) > MAX_SIZE:
                    break
                emptied = time.monotonic()
        if header := cut_header(text):
            return SourceMalformed(
                f"{self._program} prints a header that is not whole, so no domain can be read: {header!r:.300}; "
                "let nothing cut or wrap its lines"
            )
        if text and b"CPU(sec)" not in text:
            return SourceMalformed(f"{self._program} prints no iterations of xentop, but {text[:200]!r}")
        return SourceTimeout(f"{self._program} has printed no whole iteration for {HUNG:.0f} s and was killed")
