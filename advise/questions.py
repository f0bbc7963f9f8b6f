"""Advice about guests, from what a Prometheus has recorded: `python3 -m advise --help`.

It reads, and changes nothing. Exit status: 0 if what is asked about fits, 1 if it doesn't, 2 if it can't be asked, 3 if
advice is withheld because too little is recorded, or earlier predictions were wrong.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from advise import AdviceError, answer, checked, commands
from advise.answer import Answer
from advise.checked import Calibration
from advise.options import BUSY, Advisor, Option
from advise.seen import Guest, Reading, see
from deploy import StackError, durations
from deploy.api import Api
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.terminal import print_table, printable

FITS, NOTHING_FITS, CANT_ASK, WITHHELD = 0, 1, 2, 3


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m advise", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--prometheus", metavar="URL", help="default: this checkout's; its user and password may be in it"
    )
    shared.add_argument("--at", metavar="TIME", type=float, help="Unix time, such as of a busy hour; default: now")
    shared.add_argument("--present", metavar="DURATION", type=durations.parse, default=900.0, help="default: 15m")
    shared.add_argument("--past", metavar="DURATION", type=durations.parse, default=86400.0, help="default: 1d")
    shared.add_argument("--json", action="store_true")
    about = parser.add_subparsers(required=True, metavar="QUESTION")
    question = about.add_parser("where", parents=[shared], help="where these guests may go, together")
    question.add_argument("guests", nargs="+", metavar="GUEST")
    question.add_argument("--on", metavar="HOST", help="if several hosts have guests of this name")
    question.set_defaults(ask=_where)
    question = about.add_parser("relieve", parents=[shared], help="which guests had better leave this host")
    question.add_argument("host", metavar="HOST")
    question.set_defaults(ask=_relieve)
    question = about.add_parser("maintenance", parents=[shared], help="where all guests of this host may go")
    question.add_argument("host", metavar="HOST")
    question.set_defaults(ask=_maintenance)
    question = about.add_parser("cap", parents=[shared], help="what a cap of so many CPUs would do")
    question.add_argument("guests", nargs=1, metavar="GUEST")
    question.add_argument("cpus", type=float, metavar="CPUS")
    question.add_argument("--on", metavar="HOST", help="if several hosts have guests of this name")
    question.set_defaults(ask=_cap)
    question = about.add_parser("vcpus", parents=[shared], help="what so many vCPUs would do")
    question.add_argument("guests", nargs=1, metavar="GUEST")
    question.add_argument("number", type=int, metavar="NUMBER")
    question.add_argument("--on", metavar="HOST", help="if several hosts have guests of this name")
    question.set_defaults(ask=_vcpus)
    question = about.add_parser("check", parents=[shared], help="what was predicted of earlier changes, and what came")
    question.set_defaults(ask=None)
    given = parser.parse_args()
    try:
        url = given.prometheus or f"http://127.0.0.1:{ports_in_use()[PROMETHEUS.name]}"
        reading = Reading(Api(url), given.at or time.time(), given.present, given.past)
        calibration = checked.calibrate(reading)
        return _check(given, calibration) if given.ask is None else _advise(given, reading, calibration)
    except (AdviceError, StackError) as error:
        print(f"error: {error}", file=sys.stderr)
        return CANT_ASK


def _check(given: argparse.Namespace, calibration: Calibration) -> int:
    if given.json:
        print(json.dumps({**answer.calibration(calibration), "checks": answer.check_document(calibration)}, indent=2))
    elif calibration.checks:
        print_table([*answer.checks(calibration)])
        inside, error = f"{calibration.inside:.0%}", f"{calibration.error:.0%}"
        print(f"{inside} of {len(calibration.checks)} observed within their interval, median error {error}")
    else:
        print("No move, start or cap was seen with two settled minutes after it.")
    return WITHHELD if calibration.reason_to_withhold else FITS


def _advise(given: argparse.Namespace, reading: Reading, calibration: Calibration) -> int:
    advisor = Advisor(see(reading), calibration.widened)
    answers: Sequence[Answer] = given.ask(given, reading, advisor)
    reason = calibration.reason_to_withhold
    if reason is None and (unclear := dict.fromkeys(line for each in answers for line in each.unclear)):
        reason = "; ".join(unclear)
    if given.json:
        documents = [each.document() for each in answers]
        shown = documents[0] if len(documents) == 1 else {"changes": documents}
        print(json.dumps({"withheld": reason, "calibration": answer.calibration(calibration), **shown}, indent=2))
    else:
        for each in answers:
            print(printable(each.about))
            print_table([*each.rows()])
            if reason is None:
                print("\n".join(map(printable, each.lines())))
        if reason:
            print(printable(f"No advice: {reason}."))
    if reason:
        return WITHHELD
    return FITS if all(each.advised for each in answers) else NOTHING_FITS


def _answer(
    reading: Reading, advisor: Advisor, before: Sequence[Guest], options: Sequence[Option], about: str
) -> Answer:
    fitting = [each for each in options if each.limit is None]
    stays = next((each for each in options if each.stays), None)
    best = next((each for each in fitting if each.stays or each.worth or stays is None or stays.limit), None)
    managed = commands.managed(reading, list(before))
    lines = {
        each.place: [
            line
            for guest in before
            if guest in managed and not each.stays and (line := commands.move(managed[guest], each.place.host))
        ]
        for each in options
    }
    return Answer(about, options, best, lines, advisor.unclear(before))


def _where(given: argparse.Namespace, reading: Reading, advisor: Advisor) -> list[Answer]:
    guests = [advisor.find(name, given.on) for name in given.guests]
    if len({guest.place for guest in guests}) > 1:
        raise AdviceError("these guests are on several hosts: ask about those of one")
    return [_answer(reading, advisor, guests, advisor.where(guests), _about(guests))]


def _about(guests: Sequence[Guest]) -> str:
    names, cpu = ", ".join(guest.name for guest in guests), sum(guest.cpu for guest in guests)
    memory = sum(guest.memory or 0.0 for guest in guests)
    return f"{names} on {guests[0].place.host}, {cpu:.2f} CPUs, {memory / 1e6:.0f} MB"


def _of_host(advisor: Advisor, host: str) -> list[Guest]:
    if host not in {place.host for place in advisor.seen.hosts}:
        raise AdviceError(f"no host {host} is recorded in the past minutes")
    return sorted((each for each in advisor.seen.guests if each.place.host == host), key=lambda each: -each.cpu)


def _relieve(given: argparse.Namespace, reading: Reading, advisor: Advisor) -> list[Answer]:
    """Each busy guest by itself, those whose move gains most first."""
    answers = [
        _answer(reading, advisor, [guest], advisor.where([guest]), _about([guest]))
        for guest in _of_host(advisor, given.host)
        if guest.cpu > BUSY
    ]
    moves = [each for each in answers if each.advised and not each.advised.stays]
    return sorted(moves, key=lambda each: -each.advised.gain if each.advised else 0.0)


def _maintenance(given: argparse.Namespace, reading: Reading, advisor: Advisor) -> list[Answer]:
    """One guest after the other, the busiest first, each with those before it already moved."""
    answers = []
    for guest in _of_host(advisor, given.host):
        places = [place for place in advisor.places(guest.place.platform) if place != guest.place]
        found = _answer(reading, advisor, [guest], advisor.where([guest], places), _about([guest]))
        answers.append(found)
        if found.advised:
            advisor = advisor.after(found.advised)
    return answers


def _cap(given: argparse.Namespace, reading: Reading, advisor: Advisor) -> list[Answer]:
    if given.cpus <= 0:
        raise AdviceError("a cap is more than 0 CPUs")
    guest = advisor.find(given.guests[0], given.on)
    managed = commands.managed(reading, [guest]).get(guest)
    command = commands.cap(managed, given.cpus) if managed else None
    return [_changed(advisor, guest, replace(guest, cap=given.cpus), f"a cap of {given.cpus:g} CPUs", command)]


def _vcpus(given: argparse.Namespace, reading: Reading, advisor: Advisor) -> list[Answer]:
    if given.number < 1:
        raise AdviceError("a guest has 1 vCPU or more")
    guest = advisor.find(given.guests[0], given.on)
    managed = commands.managed(reading, [guest]).get(guest)
    command = commands.vcpus(managed, given.number) if managed else None
    return [_changed(advisor, guest, replace(guest, vcpus=given.number), f"{given.number} vCPUs", command)]


def _changed(advisor: Advisor, guest: Guest, after: Guest, what: str, command: str | None) -> Answer:
    option = advisor.option([guest], [after], guest.place)
    advised = option if option.limit is None else None
    lines = {guest.place: [command] if command else []}
    return Answer(f"{_about([guest])}, with {what}", [option], advised, lines, advisor.unclear([guest]))
