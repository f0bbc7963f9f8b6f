"""Runs the host's toolstack, `xl` or its predecessor `xm`, for values that libxenstat lacks: weights, caps, uuids...

Each program takes up to a second, so use it in the background. Answers are interpreted here only to decide which
programs to run.
"""

from __future__ import annotations

import logging
import math
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

# The first that works is used: uuids since 4.1, CPU pools since 4.6. xl before 4.5 lists even with an unknown -c, but
# reports it.
_NOT_KNOWN = re.compile("not implemented|not found!$")
LISTS = {"xl": (("list", "-v", "-c"), ("list", "-v"), ("list",)), "xm": (("list",),)}


class Answer(NamedTuple):
    """A program's answer."""

    command: str  # such as "vcpu-list"
    output: bytes
    problem: str  # a failure's status, or its standard error; "": none
    failed: bool  # whether the status isn't 0; the output may still be valid


class RawToolstack(NamedTuple):
    """All answers of one round, "list" first; without those that a machine can't give."""

    program: str  # the path of xl or xm
    answers: tuple[Answer, ...]
    os_names: tuple[tuple[int, bytes], ...] = ()  # by domid, written into XenStore by the guests' agents


class Xl:
    """Asks xl, or xm without it."""

    def __init__(self, programs: Programs | None = None, read_xenstore: ReadXenstore | None = None) -> None:
        """The arguments replace this machine's toolstack and XenStore."""
        self.programs = programs or Commands(TIMEOUT)
        self._read_xenstore = read_xenstore or xenstore.read_values
        self.program = ""  # the path of the last one that worked
        self._list: tuple[str, ...] = ()  # last arguments that worked
        self._details: Answer | None = None
        self._details_due: dict[tuple[int, str], int] = {}  # remaining tries for each domain
        self._os_names: dict[tuple[int, str], bytes] = {}  # of existing domains
        self._not_known: set[str] = set()  # commands that this version doesn't know
        self._psr_kinds: tuple[str, ...] = ()
        self._psr_due = -math.inf

    def read(self) -> RawToolstack:
        """Ask for everything again; takes some seconds.

        Raises SourceUnavailable without xl and xm, SourceError if neither lists domains, and SourceTimeout and
        SourceMalformed like Commands.run() and the parser of the list.
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
        return RawToolstack(self.program, tuple(answers), os_names)

    def _listed(self) -> Answer:
        """List the domains by the last command that worked, otherwise (after an upgrade) by the first that works."""
        failure: SourceError | None = None
        for program, arguments in self._candidates():
            try:
                answer = _answer("list", self.programs.run(program, *arguments))
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
        last = [(self.program, self._list)] if self.program else []
        programs = {name: self.programs.find(name, _FOLDERS) for name in LISTS}
        found = [(programs[name], arguments) for name, lists in LISTS.items() for arguments in lists]
        return last + [candidate for candidate in found if candidate[0] and candidate not in last]

    def _use(self, program: str, arguments: tuple[str, ...]) -> None:
        if (program, arguments) == (self.program, self._list):
            return
        if self.program not in {"", program}:
            log.info("toolstack program changed", extra={"fields": {"was": self.program, "is": program}})
        self.program, self._list, self._not_known = program, arguments, set()

    def _ask(self, *arguments: str) -> Answer:
        return _answer(" ".join(arguments), self.programs.run(self.program, *arguments))

    def _ask_if_known(self, command: str) -> list[Answer]:
        """Run a command unless this version is known to lack it."""
        if command in self._not_known:
            return []
        answer = self._ask(command)
        if answer.failed and _NOT_KNOWN.search(answer.problem):
            self._not_known.add(command)
            return []
        return [answer]

    def _about_details(self, listed: Answer) -> list[Answer]:
        """Ask for each guest's type, only when there are new guests: it is slow, and the type never changes.

        A guest in creation isn't listed yet, and a guest of another toolstack never is.
        """
        self._details_due = {domain: self._details_due.get(domain, ASK_DETAILS) for domain in _domains(listed)}
        before = self._details
        if before and not any(self._details_due.values()):
            return [before._replace(problem="", failed=False)]  # its problem was reported already
        try:
            self._details = self._ask("list", "-l")
        except SourceTimeout as error:  # it waits while another program changes a domain
            self._details = Answer("list -l", b"", str(error), True)
        if self._details.failed:
            self._details = self._details._replace(output=before.output if before else b"")
            return [self._details]
        try:
            answered = set(parse_details(self._details.output))
        except SourceMalformed:  # toolstack.py counts it
            answered = set()
        self._details_due = {
            domain: 0 if domain[0] in answered else max(due - 1, 0) for domain, due in self._details_due.items()
        }
        return [self._details]

    def _about_systems(self, listed: Answer) -> list[Answer]:
        """Read guests' system names from XenStore, written by agents like XenServer's; returns problems.

        The first value of each guest is kept: guests could write a new one again and again.
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
        """Ask for cache and bandwidth monitoring; a machine without it is no problem."""
        if Path(self.program).name != "xl" or (not self._psr_kinds and time.monotonic() < self._psr_due):
            return []
        self._psr_due = time.monotonic() + PSR_AGAIN
        answers = [self._ask("psr-cmt-show", kind) for kind in self._psr_kinds or PSR_KINDS]
        known, self._psr_kinds = self._psr_kinds, tuple(each.command.split()[1] for each in answers if not each.failed)
        return answers if known else [each for each in answers if not each.failed]


def _answer(command: str, finished: Finished) -> Answer:
    problem = finished.problem() or last_line(finished.complaints)
    return Answer(command, finished.output, problem, finished.status != 0)


def _domains(listed: Answer) -> set[tuple[int, str]]:
    """Return the domains as (domid, uuid or else name), as ids are reused."""
    return {(domain.domid, domain.uuid or domain.name) for domain in parse_list(listed.output)[0]}
