"""Advice about guests, from what a Prometheus has recorded: `python3 -m advise --help`.

It reads, and changes nothing. Exit status: 0 if what is asked about fits, 1 if it doesn't, 2 if it can't be asked, 3 if
advice is withheld because too little is recorded, or earlier predictions were wrong.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence

from advise import AdviceError, answer, checked, questions
from advise.answer import Answer
from advise.checked import Calibration
from advise.options import Advisor
from advise.reading import Reading
from advise.seen import see
from advise.serving import Found, Shown, serve
from deploy import StackError, durations
from deploy.api import Api
from deploy.parts import PROMETHEUS
from deploy.plan import ports_in_use
from deploy.terminal import print_table, printable

FITS, NOTHING_FITS, CANT_ASK, WITHHELD = 0, 1, 2, 3
PORT = 10299
Ask = Callable[[argparse.Namespace, Reading, Advisor], Sequence[Answer]]
QUESTIONS: dict[str, tuple[str, Ask]] = {
    "where": (
        "where these guests fit, together",
        lambda given, reading, advisor: [questions.where(reading, advisor, given.guests, given.on)],
    ),
    "relieve": (
        "which guests had better leave this host",
        lambda given, reading, advisor: questions.relieve(reading, advisor, given.host),
    ),
    "maintenance": (
        "where all guests of this host fit",
        lambda given, reading, advisor: questions.maintenance(reading, advisor, given.host),
    ),
    "cap": (
        "what a cap of so many CPUs does",
        lambda given, reading, advisor: [questions.cap(reading, advisor, given.guest, given.cpus, given.on)],
    ),
    "vcpus": (
        "what so many vCPUs do",
        lambda given, reading, advisor: [questions.vcpus(reading, advisor, given.guest, given.number, given.on)],
    ),
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
    of.add_argument("--past", metavar="DURATION", type=_duration, default=86400.0, help="default: 1d")
    once = argparse.ArgumentParser(add_help=False, parents=[of])
    once.add_argument("--at", metavar="TIME", type=float, help="Unix time, such as of a busy hour; default: now")
    once.add_argument("--json", action="store_true")
    about = parser.add_subparsers(required=True, metavar="QUESTION", dest="question")
    commands = {name: about.add_parser(name, parents=[once], help=text) for name, (text, _) in QUESTIONS.items()}
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
    if not port.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as 127.0.0.1:{PORT}")
    return host, int(port)


def _duration(text: str) -> float:
    try:
        return durations.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


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
    _, ask = QUESTIONS[given.question]
    answers = ask(given, reading, Advisor(see(reading), calibration.widened))
    reason = calibration.reason_to_withhold
    if reason is None and (unclear := dict.fromkeys(line for each in answers for line in each.unclear)):
        reason = "; ".join(unclear)
    if given.json:
        documents = [each.document(withheld=reason is not None) for each in answers]
        shown = {"changes": documents} if given.question in ("relieve", "maintenance") else documents[0]
        print(json.dumps({"withheld": reason, "calibration": answer.calibration(calibration), **shown}, indent=2))
    else:
        for each in answers:
            print(printable(each.about))
            print_table([*each.rows()])
            if reason is None:
                print("\n".join(map(printable, each.lines())))
        if reason:
            print(printable(f"No advice: {reason}."))
        elif not answers:
            print("No guest had better be elsewhere.")
    if reason:
        return WITHHELD
    return FITS if all(each.advised for each in answers) else NOTHING_FITS


def _found(reading: Reading) -> Found:
    calibration = checked.calibrate(reading)
    advisor = Advisor(see(reading), calibration.widened)
    hosts = sorted({place.host for place in advisor.seen.hosts})
    advice = [(host, questions.relieve(reading, advisor, host)) for host in hosts]
    return Found(reading.at, calibration, [(host, answers) for host, answers in advice if answers])
