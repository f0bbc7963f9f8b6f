"""Advice about guests, from what a Prometheus has recorded: `python3 -m advise --help`.

It reads, and changes nothing. Exit status: 0 if what is asked about fits, 1 if it doesn't, 2 if it can't be asked, 3 if
advice is withheld because too little is recorded, or earlier predictions were wrong.
"""

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from advise import AdviceError, answer, checked, questions
from advise.answer import Answer
from advise.checked import Calibration
from advise.commands import Managers
from advise.options import Advisor
from advise.reading import SHORTEST_STEP, Reading
from advise.seen import see
from advise.serving import Found, Shown, serve
from deploy import StackError, durations
from deploy.api import Api
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.terminal import print_table, printable

FITS, NOTHING_FITS, CANT_ASK, WITHHELD = 0, 1, 2, 3
PORT = 10299
LEAST_PAST = 10 * SHORTEST_STEP
Ask = Callable[[argparse.Namespace, Managers, Advisor], Sequence[Answer]]
QUESTIONS: Mapping[str, Ask] = {
    "where": lambda given, managers, advisor: [questions.where(managers, advisor, given.guests, given.on)],
    "relieve": lambda given, managers, advisor: questions.relieve(managers, advisor, given.host),
    "maintenance": lambda given, managers, advisor: questions.maintenance(managers, advisor, given.host),
    "cap": lambda given, managers, advisor: [questions.cap(managers, advisor, given.guest, given.cpus, given.on)],
    "vcpus": lambda given, managers, advisor: [questions.vcpus(managers, advisor, given.guest, given.number, given.on)],
}


def main() -> int:
    given = _parser().parse_args()
    try:
        url = given.prometheus or f"http://127.0.0.1:{ports_in_use()[PROMETHEUS.name]}"
        api = Api(url)
        if given.question == "serve":
            serve(
                given.listen, Shown(), lambda: _found(Reading(api, time.time(), given.present, given.past)), given.every
            )
            return FITS
        reading = Reading(api, given.at or time.time(), given.present, given.past)
        calibration = checked.calibrate(reading)
        return _check(given, calibration) if given.question == "check" else _advise(given, reading, calibration)
    except (AdviceError, StackError) as error:
        print(printable(f"error: {error}"), file=sys.stderr)
        return CANT_ASK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m advise", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    of = argparse.ArgumentParser(add_help=False)
    of.add_argument("--prometheus", metavar="URL", help="default: this checkout's; its user and password may be in it")
    of.add_argument("--present", metavar="DURATION", type=_duration, default=900.0, help="default: 15m")
    of.add_argument("--past", metavar="DURATION", type=_past, default=86400.0, help="default: 1d")
    once = argparse.ArgumentParser(add_help=False, parents=[of])
    once.add_argument("--at", metavar="TIME", type=float, help="Unix time, such as of a busy hour; default: now")
    once.add_argument("--json", action="store_true")
    about = parser.add_subparsers(required=True, metavar="QUESTION", dest="question")
    commands = {name: about.add_parser(name, parents=[once], help=questions.ABOUT[name]) for name in QUESTIONS}
    commands["where"].add_argument("guests", nargs="+", metavar="GUEST")
    for name in ("cap", "vcpus"):
        commands[name].add_argument("guest", metavar="GUEST")
    commands["cap"].add_argument("cpus", type=float, metavar="CPUS")
    commands["vcpus"].add_argument("number", type=int, metavar="NUMBER")
    for name in ("where", "cap", "vcpus"):
        commands[name].add_argument("--on", metavar="HOST", help="if several hosts have a guest of this name")
    for name in ("relieve", "maintenance"):
        commands[name].add_argument("host", metavar="HOST")
    about.add_parser("check", parents=[once], help="predictions of earlier changes, and what was observed")
    server = about.add_parser("serve", parents=[of], help="a page with advice for all hosts, and metrics")
    server.add_argument(
        "--listen", metavar="HOST:PORT", type=_address, default=("127.0.0.1", PORT), help=f"default: 127.0.0.1:{PORT}"
    )
    server.add_argument(
        "--every", metavar="DURATION", type=_duration, default=900.0, help="how often it looks; default: 15m"
    )
    return parser


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as 127.0.0.1:{PORT}")
    return host, int(port)


def _duration(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _past(text: str) -> float:
    seconds = _duration(text)
    if seconds < LEAST_PAST:
        raise argparse.ArgumentTypeError(f"{text!r} is less than {LEAST_PAST:.0f} s")
    return seconds


def _check(given: argparse.Namespace, calibration: Calibration) -> int:
    if given.json:
        print(json.dumps({**answer.calibration(calibration), "checks": answer.check_document(calibration)}, indent=2))
    elif calibration.checks:
        print_table([*answer.checks(calibration)])
        inside, error = answer.percent(calibration.inside), answer.percent(calibration.error)
        print(f"{inside} of {len(calibration.checks)} observed within their interval, median error {error}")
    else:
        print(answer.UNCHECKED)
    return WITHHELD if calibration.reason_to_withhold else FITS


def _advise(given: argparse.Namespace, reading: Reading, calibration: Calibration) -> int:
    answers = QUESTIONS[given.question](given, Managers(reading), Advisor(see(reading), calibration.widened))
    if given.json:
        documents = [each.document(calibration) for each in answers]
        whole = {"withheld": calibration.reason_to_withhold, "calibration": answer.calibration(calibration)}
        several = given.question in ("relieve", "maintenance")
        print(json.dumps({**whole, **({"changes": documents} if several else documents[0])}, indent=2))
    else:
        for each in answers:
            print(printable(each.about))
            print_table([*each.rows()])
            print("\n".join(map(printable, each.lines(calibration))))
        if not answers:
            print(answer.no_moves(calibration))
    if calibration.reason_to_withhold or any(each.withheld(calibration) for each in answers):
        return WITHHELD
    return FITS if all(each.advised for each in answers) else NOTHING_FITS


def _found(reading: Reading) -> Found:
    calibration = checked.calibrate(reading)
    advisor, managers = Advisor(see(reading), calibration.widened), Managers(reading)
    hosts = sorted({place.host for place in advisor.seen.hosts})
    advice = [(host, questions.relieve(managers, advisor, host)) for host in hosts]
    asking = threading.Lock()  # an advisor keeps what it has predicted, for one at a time

    def ask(fields: Mapping[str, str]) -> Sequence[Answer]:
        given = _from_form(fields)
        with asking:
            return QUESTIONS[given.question](given, managers, advisor)

    return Found(reading.at, calibration, [(host, answers) for host, answers in advice if answers], ask)


def _from_form(fields: Mapping[str, str]) -> argparse.Namespace:
    """As from the command line; raises `AdviceError`."""
    question, names, number = fields.get("question", ""), fields.get("of", "").split(), fields.get("number", "") or "0"
    if question not in QUESTIONS or not names:
        raise AdviceError("choose a question, and name guests or a host")
    try:
        cpus = float(number)
    except ValueError:
        raise AdviceError(f"{number!r} is no number") from None
    whole = int(cpus) if math.isfinite(cpus) else 0
    first, on = names[0], fields.get("on", "").strip() or None
    return argparse.Namespace(question=question, guests=names, guest=first, host=first, cpus=cpus, number=whole, on=on)
