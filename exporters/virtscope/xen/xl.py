"""The host's toolstack, `xl` or before it `xm`: what libxenstat doesn't know, such as weights, caps and uuids.

Some programs that take up to a second each, so they are for the background. Nothing is interpreted here beyond what
decides which of them to run.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, NamedTuple

from virtscope.toolkit.bounded import Commands, Finished, Programs, last_line
from virtscope.toolkit.collect import SourceError, SourceMalformed, SourceTimeout, SourceUnavailable
from virtscope.xen import xenstore
from virtscope.xen.xl_domains import parse_details, parse_list
from virtscope.xen.xl_host import PSR_KINDS, SCHEDULER_COMMANDS, parse_info, parse_pools

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds for each program
ASK_DETAILS = 3  # times for a domain
PSR_AGAIN = 3600.0  # seconds until a machine without cache monitoring is asked again

_FOLDERS = ("/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/xensource/bin")
ReadXenstore = Callable[[Sequence[str]], "list[bytes | None]"]  # as xenstore.read_values()

# The first that works: uuids are listed since 4.1, CPU pools since 4.6. xl before 4.5 lists in spite of a -c that it
# doesn't know, but says so.
_NOT_KNOWN = re.compile("not implemented|not found!$")
LISTS = {"xl": (("list", "-v", "-c"), ("list", "-v"), ("list",)), "xm": (("list",),)}


class Answer(NamedTuple):
    """What a program answered."""

    command: str  # such as "vcpu-list"
    output: bytes
    problem: str  # its end if not with status 0, or what it said on standard error; "" where there was none
    failed: bool  # whether it ended with another status than 0; its output may still be good


class RawToolstack(NamedTuple):
    """All answers of one round, of which "list" is the first; those that a machine can't give are not among them."""

    program: str  # the path of xl or xm
    answers: tuple[Answer, ...]
    os_names: tuple[tuple[int, bytes], ...] = ()  # by domid, as the guests' agents have written them into XenStore


class Xl:
    """Asks the toolstack, whichever there is."""

    def __init__(self, programs: Programs | None = None, read_xenstore: ReadXenstore | None = None) -> None:
        """Ask by these, if it isn't this machine's toolstack and XenStore."""
        self._commands = programs or Commands(TIMEOUT)
        self._read_xenstore = read_xenstore or xenstore.read_values
        self._program = ""  # the last that worked
        self._list: tuple[str, ...] = ()  # likewise
        self._details: Answer | None = None
        self._details_due: dict[tuple[int, str], int] = {}  # how often to ask for each domain's, if not answered before
        self._os_names: dict[tuple[int, str], bytes] = {}  # of the domains that are there
        self._not_known: set[str] = set()  # commands that this version doesn't know
        self._psr_kinds: tuple[str, ...] = ()
        self._psr_asked_at: float | None = None

    def read(self) -> RawToolstack:
        """Ask everything again; some seconds.

        Raises SourceUnavailable where there is neither xl nor xm, SourceError where none of them lists domains,
        SourceTimeout and SourceMalformed as Commands.run() and the parser of the list do.
        """
        listed = self._listed()
        host, pools = self._ask("info"), self._ask_if_known("cpupool-list")
        answers = [listed, host, *pools, *self._about_details(listed), *self._ask_if_known("vcpu-list")]
        in_use = {parse_info(host.output).scheduler}
        in_use.update(pool.scheduler for answer in pools for pool in parse_pools(answer.output)[0])
        for name, command in SCHEDULER_COMMANDS.items():
            answers += self._ask_if_known(command) if name in in_use else []
        answers += [*self._about_caches(), *self._about_systems(listed)]
        os_names = tuple((domid, os_name) for (domid, _), os_name in self._os_names.items())
        return RawToolstack(self._program, tuple(answers), os_names)

    def origin(self) -> str:
        """Return the path of the program in use."""
        return self._program

    def cpu_seconds(self) -> float:
        """Return the CPU time that all programs have taken so far."""
        return self._commands.cpu_seconds

    def close(self) -> None:
        """End what is running."""
        self._commands.close()

    def _listed(self) -> Answer:
        """List the domains by what worked last, or else by the first that works: an upgrade may have moved it."""
        failure: SourceError | None = None
        for program, arguments in self._candidates():
            try:
                answer = _answer("list", self._commands.run(program, *arguments))
                if answer.failed:
                    raise SourceError(f"{program} {' '.join(arguments)} {answer.problem}")
            except SourceTimeout:
                raise
            except SourceError as error:
                failure = error if failure is None or isinstance(failure, SourceUnavailable) else failure
                continue
            if "-c" not in arguments or b"Cpupool" in answer.output:
                self._use(program, arguments)
                return answer
        raise failure or SourceUnavailable(f"neither xl nor xm is in PATH or {', '.join(_FOLDERS)}")

    def _candidates(self) -> list[tuple[str, tuple[str, ...]]]:
        last = [(self._program, self._list)] if self._program else []
        programs = {name: self._commands.find(name, _FOLDERS) for name in LISTS}
        found = [(programs[name], arguments) for name, lists in LISTS.items() for arguments in lists]
        return last + [candidate for candidate in found if candidate[0] and candidate not in last]

    def _use(self, program: str, arguments: tuple[str, ...]) -> None:
        if (program, arguments) == (self._program, self._list):
            return
        if self._program not in {"", program}:
            log.info("toolstack program changed", extra={"fields": {"was": self._program, "is": program}})
        self._program, self._list, self._not_known = program, arguments, set()

    def _ask(self, *arguments: str) -> Answer:
        return _answer(" ".join(arguments), self._commands.run(self._program, *arguments))

    def _ask_if_known(self, command: str) -> list[Answer]:
        """Ask what this version may not know."""
        if command in self._not_known:
            return []
        answer = self._ask(command)
        if answer.failed and _NOT_KNOWN.search(answer.problem):
            self._not_known.add(command)
            return []
        return [answer]

    def _about_details(self, listed: Answer) -> list[Answer]:
        """Ask what kind of guest each is, which is slow and never changes: only when there are new ones.

        One that is still being made isn't listed yet, and one that another toolstack made never is.
        """
        self._details_due = {domain: self._details_due.get(domain, ASK_DETAILS) for domain in _domains(listed)}
        if self._details and not any(self._details_due.values()):
            return [self._details._replace(problem="", failed=False)]  # which was said already
        before = self._details
        try:
            self._details = self._ask("list", "-l")
        except SourceTimeout as error:  # it waits for whoever is about to change one of the domains
            self._details = Answer("list -l", b"", str(error), True)
        if self._details.failed:
            self._details = self._details._replace(output=before.output if before else b"")
        else:
            answered = _detailed(self._details)
            self._details_due = {
                domain: 0 if domain[0] in answered else max(due - 1, 0) for domain, due in self._details_due.items()
            }
        return [self._details]

    def _about_systems(self, listed: Answer) -> list[Answer]:
        """Ask XenStore what guests with an agent of XenServer's kind call their system; returns what was wrong with it.

        Each is asked until it has said something, which is kept: guests could write something new again and again.
        """
        now = _domains(listed)
        self._os_names = {domain: os_name for domain, os_name in self._os_names.items() if domain in now}
        silent = sorted(now - self._os_names.keys())
        try:
            values = self._read_xenstore([f"/local/domain/{domid}/data/os_name" for domid, _ in silent])
        except SourceUnavailable:
            return []
        except SourceError as error:
            return [Answer("xenstore", b"", str(error), True)]
        self._os_names.update((domain, value) for domain, value in zip(silent, values) if value)
        return []

    def _about_caches(self) -> list[Answer]:
        if Path(self._program).name != "xl":
            return []
        now = time.monotonic()
        if self._psr_kinds:
            answers = [self._ask("psr-cmt-show", kind) for kind in self._psr_kinds]
        elif self._psr_asked_at is None or now - self._psr_asked_at >= PSR_AGAIN:
            self._psr_asked_at = now
            # That the machine has none of it is no problem to report.
            answers = [each for kind in PSR_KINDS if not (each := self._ask("psr-cmt-show", kind)).failed]
        else:
            return []
        self._psr_kinds = tuple(each.command.split()[1] for each in answers if not each.failed)
        return answers


def _answer(command: str, finished: Finished) -> Answer:
    problem = finished.problem() or last_line(finished.complaints)
    return Answer(command, finished.output, problem, finished.status != 0)


def _domains(listed: Answer) -> set[tuple[int, str]]:
    """Return which domains there are: ids are used again, so each with its uuid, or its name where it has none."""
    return {(domain.domid, domain.uuid or domain.name) for domain in parse_list(listed.output)[0]}


def _detailed(answer: Answer) -> set[int]:
    try:
        return set(parse_details(answer.output))
    except SourceMalformed:  # which toolstack.py counts
        return set()
