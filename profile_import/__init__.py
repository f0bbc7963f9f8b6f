"""Old profiles beside live ones: reports of OProfile, Xenoprof and perf as OpenMetrics, to backfill Prometheus with.

    python -m profile_import opreport report.txt --label host=study-2007 --output study.om

is what `make import` does. It needs nothing of the host that was profiled, and runs where the reports are.

reports       a report as it was saved or pasted, of any kind, to a profile
opreport      what `opreport` prints, parsed
perf_script   what `perf script` prints, parsed; `perf report` is virtscope.perf.perf_report, as for live profiles
__main__      the command line, and a profile to OpenMetrics
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "exporters"))  # they needn't be installed
