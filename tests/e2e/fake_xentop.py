#!/usr/bin/env python3
"""Fake xentop that prints an iteration per second, as configured by the files next to it.

says     what to do: "counts" prints iterations, each with its number as every CPU time; "dies" exits at once with an
         error; "hangs" prints nothing; "old" doesn't know -f; "cut" cuts lines at 80 columns; "repeats" the header
         above each domain, like -r
children gets the process id and the arguments of each start
"""

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
HEADER = (
    "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS NETS NETTX(k) NETRX(k) VBDS"
    "   VBD_OO   VBD_RD   VBD_WR  VBD_RSECT  VBD_WSECT SSID\n"
)
ROW = "{:>10} {} {:10}    0.0      98304    4.7   no limit       n/a     1    0 0 0 0 0 0 0 0 0    0\n"

with (HERE / "children").open("a") as children:
    children.write(f"{os.getpid()} {' '.join(sys.argv[1:])}\n")
says = (HERE / "says").read_text().strip()
if says == "old" and "-f" in sys.argv:
    sys.exit("xentop: invalid option -- 'f'")
if says == "dies":
    sys.exit("first complaint\nERROR: Can't find hypervisor information in sysfs!")
if says == "hangs":
    time.sleep(600)
for count in range(600):
    text = HEADER + ROW.format("Domain-0", "-----r", count) + ROW.format("web01", "--b---", count)
    if says == "cut":
        text = "".join(f"{line[:80]}\n" for line in text.splitlines())
    if says == "repeats":
        text = text.replace("     web01", f"{HEADER}     web01")
    sys.stdout.write(text)
    sys.stdout.flush()
    time.sleep(1)
