"""What monitoring costs, measured side by side with other programs that do the same. Run by `make bench`."""

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(CHECKOUT / "exporters"))  # as the tests have it
