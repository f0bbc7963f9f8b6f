"""Cost of monitoring, measured next to programs with the same task. Run by `make bench`."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "exporters"))  # as in the tests
