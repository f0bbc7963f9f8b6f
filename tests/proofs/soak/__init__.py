"""Leak test: the whole stack for hours under churn, and the slopes of its readings. Run by `make soak HOURS=2`."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "exporters"))  # as in the tests
