"""What takes hours: proofs on real hosts and stacks, and benchmarks."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "exporters"))  # as in the tests
