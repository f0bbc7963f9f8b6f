"""Hurt a running stack in many ways, and print what each did: `make faults`, ONLY=REGEX for some of them."""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable

import requests

from tests.proofs.faults import network, table
from tests.proofs.faults.catalogue import AFTER_THE_CUT, BEFORE_THE_CUT, DURING_THE_CUT, Fault
from tests.proofs.faults.observer import Observer
from tests.proofs.faults.stack import SCRAPE_SECONDS, HurtStack
from tests.support.waiting import wait_for

WELL_SECONDS = 60.0  # the stack must be healthy before a fault
UNTRIED = 2  # exit status


def tried(fault: Fault, observer: Observer) -> table.Row:
    """Wait until the stack is healthy, inject the fault and observe."""
    if why := fault.lacks(observer.stack):
        return table.Row(fault.name, said=why, skipped=True)
    try:
        wait_for(lambda: observer.is_well(time.time() - 4 * SCRAPE_SECONDS, observer.expected()), WELL_SECONDS, every=1)
    except AssertionError:
        return table.Row(fault.name, said="the stack was not well before", skipped=True)
    try:
        outcome = observer.observe(lambda: fault.hurt(observer.stack), fault.seconds)
        complaint = fault.check(observer.stack) if outcome.seconds is not None else ""
    except (requests.RequestException, RuntimeError, AssertionError, OSError) as error:  # go on with the others
        return table.Row(fault.name, missed=(f"{type(error).__name__}: {error}",))
    return table.row(fault, outcome, complaint)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proofs.faults", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="faults whose name has this")
    only = parser.parse_args().only
    if os.geteuid() != 0:
        print("error: only root can mount a small disk and cut a network: use sudo", file=sys.stderr)
        return UNTRIED
    began = time.monotonic()
    rows: list[table.Row] = []
    with HurtStack() as stack:
        observer = Observer(stack)

        def try_all(faults: Iterable[Fault]) -> None:
            for fault in faults:
                if re.search(only, fault.name):
                    rows.append(tried(fault, observer))
                    print(f"{time.monotonic() - began:4.0f} s  {table.line(rows[-1])}", flush=True)

        try_all(BEFORE_THE_CUT)
        cut = network.Cut(observer) if re.search(only, network.NAME) else None
        try_all(DURING_THE_CUT)
        if cut:
            rows.append(cut.end())
        try_all(AFTER_THE_CUT)
        missed = tuple(observer.standing())
        rows.append(
            table.Row("an alert that stands, through all of these", alerts="raised SourceFailing", missed=missed)
        )
    print(f"\n{table.text(rows)}\n\n{(time.monotonic() - began) / 60:.0f} minutes")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
