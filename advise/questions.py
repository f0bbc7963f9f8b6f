"""The questions that can be asked, answered by options and the commands that carry them out."""

import math
from collections.abc import Callable, Sequence

from advise import AdviceError, commands
from advise.answer import Answer, memory
from advise.commands import Managed, Managers
from advise.options import BUSY, Advisor, Option
from advise.seen import Guest

ABOUT = {
    "where": "where these guests fit, together",
    "relieve": "which guests had better leave this host",
    "maintenance": "where all guests of this host fit",
    "cap": "what a cap of so many CPUs does",
    "vcpus": "what so many vCPUs do",
}
LEAST_CAP = 0.01  # CPUs: xl and vzctl take whole per cent, of which 0 is no cap


def where(managers: Managers, advisor: Advisor, names: Sequence[str], on: str | None = None) -> Answer:
    """On which host these guests fit together; raises `AdviceError`."""
    guests = [advisor.find(name, on) for name in dict.fromkeys(names)]
    if len({guest.place for guest in guests}) > 1:
        raise AdviceError("these guests are on several hosts: ask about those of one")
    return _answer(managers, advisor, guests, advisor.where(guests))


def relieve(managers: Managers, advisor: Advisor, host: str) -> list[Answer]:
    """Moves of single guests away from this host that are worth it, the largest gain first.

    Last come guests for which advice is withheld. Raises `AdviceError`.
    """
    answers = [
        _answer(managers, advisor, [guest], advisor.where([guest]))
        for guest in _of_host(advisor, host)
        if guest.cpu > BUSY
    ]
    moves = [(each.advised.gain, each) for each in answers if each.advised and not (each.advised.stays or each.unclear)]
    withheld = [each for each in answers if each.unclear]
    return [*(each for _, each in sorted(moves, key=lambda move: -move[0])), *withheld]


def maintenance(managers: Managers, advisor: Advisor, host: str) -> list[Answer]:
    """Where to put all guests of this host: the busiest first, each with those before it already moved.

    Raises `AdviceError`.
    """
    answers = []
    for guest in _of_host(advisor, host):
        places = [place for place in advisor.places(guest.place.platform) if place != guest.place]
        found = _answer(managers, advisor, [guest], advisor.where([guest], places))
        answers.append(found)
        if found.advised:
            advisor = advisor.after(found.advised)
    return answers


def cap(managers: Managers, advisor: Advisor, name: str, cpus: float, on: str | None = None) -> Answer:
    """What a cap does; raises `AdviceError`."""
    if not LEAST_CAP <= cpus < math.inf:
        raise AdviceError(f"a cap is at least {LEAST_CAP:g} CPUs")
    guest = advisor.find(name, on)
    after = guest.limited(cpus, guest.vcpus)
    return _changed(
        managers, advisor, guest, after, what=f"a cap of {cpus:g} CPUs", carry_out=lambda by: commands.cap(by, cpus)
    )


def vcpus(managers: Managers, advisor: Advisor, name: str, number: int, on: str | None = None) -> Answer:
    """What this number of vCPUs does; raises `AdviceError`."""
    if number < 1:
        raise AdviceError("a guest has 1 vCPU or more")
    guest = advisor.find(name, on)
    after = guest.limited(guest.cap, number)
    return _changed(
        managers, advisor, guest, after, what=f"{number} vCPUs", carry_out=lambda by: commands.vcpus(by, number)
    )


def _of_host(advisor: Advisor, host: str) -> list[Guest]:
    if host not in {place.host for place in advisor.seen.hosts}:
        raise AdviceError(f"no host {host} is recorded in the past minutes")
    return sorted((each for each in advisor.seen.guests if each.place.host == host), key=lambda each: -each.cpu)


def _answer(managers: Managers, advisor: Advisor, before: Sequence[Guest], options: Sequence[Option]) -> Answer:
    fitting = [each for each in options if each.limit is None]
    stays = next((each for each in options if each.stays), None)
    best = next((each for each in fitting if each.stays or each.worth or stays is None or stays.limit), None)
    managed = {guest: of for guest in before if (of := managers.of(guest))}
    lines = {
        each.place: [
            line
            for guest in before
            if guest in managed and not each.stays and (line := commands.move(managed[guest], each.place.host))
        ]
        for each in options
    }
    unknown = {each.place: advisor.unknown(each) for each in options}
    return Answer(_about(before), options, best, lines, unknown, advisor.unclear(before), where=True)


def _changed(
    managers: Managers,
    advisor: Advisor,
    guest: Guest,
    after: Guest,
    *,
    what: str,
    carry_out: Callable[[Managed], str | None],
) -> Answer:
    option = advisor.option([guest], [after], guest.place)
    managed = managers.of(guest)
    command = carry_out(managed) if managed else None
    advised = option if option.limit is None else None
    lines = {guest.place: [command] if command else []}
    unknown, unclear = {guest.place: advisor.unknown(option)}, advisor.unclear([guest])
    return Answer(f"{_about([guest])}, with {what}", [option], advised, lines, unknown, unclear)


def _about(guests: Sequence[Guest]) -> str:
    names, cpu = ", ".join(guest.name for guest in guests), sum(guest.cpu for guest in guests)
    size = memory(guests)
    return f"{names} on {guests[0].place.host}, {cpu:.2f} CPUs" + ("" if size is None else f", {size / 1e6:.0f} MB")
