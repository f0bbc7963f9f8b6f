"""Whether the neighbour that is named is the one who did it: injected episodes through the real chain, `make truth`.

`episodes` plans who does what (pure), `injection` does it with `worker.c` and real guests, `chain` is what watches:
exporters, Prometheus and the project's rules; `judgement` compares what was named with what was injected, `table` shows
it beside the bars (both pure).
"""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "exporters"))  # as the tests have it
