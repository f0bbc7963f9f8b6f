"""`python3 -m advise`, also by a Python without its packages: they are installed into the checkout first."""

import importlib.util
import os
import sys
import traceback

from deploy import lab

if __name__ == "__main__":
    if importlib.util.find_spec("scipy") is None:
        lab.become("advise", *sys.argv[1:])
    from advise.command import main

    try:
        sys.exit(main())
    except Exception:  # Python's status 1 would mean that nothing fits
        traceback.print_exc()
        sys.exit(os.EX_SOFTWARE)
