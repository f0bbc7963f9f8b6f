"""Runs the lab, and `advise`, in a virtual environment with their packages: `python3 -m deploy.lab run scale`.

Missing packages are installed first, as pinned in requirements/lab.txt. Only Python's standard library is needed.
"""

import os
import sys
from typing import NoReturn

from deploy import StackError
from deploy.places import CHECKOUT
from deploy.python_packages import LAB


def main() -> NoReturn:
    """Become `python -m lab ARGUMENTS`; exit with status 1 without the scenario or its packages."""
    scenarios = sorted(file.stem for file in (CHECKOUT / "lab/scenarios").glob("*.yml"))
    name = sys.argv[-1]
    if sys.argv[1:2] == ["run"] and not name.endswith((".yml", ".yaml")) and name not in scenarios:
        sys.exit(f"error: no scenario {name!r}; there are {', '.join(scenarios)}")  # before packages are installed
    become("lab", *sys.argv[1:])


def become(module: str, *arguments: str) -> NoReturn:
    """Run this module in the environment; exit with status 1 if its packages can't be installed."""
    try:
        LAB.require_venv()
        if not LAB.is_installed():
            print(f"Installing Python packages ({LAB.folder.relative_to(CHECKOUT)}) ...", file=sys.stderr, flush=True)
            LAB.install()
    except (StackError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    os.chdir(CHECKOUT)
    os.execv(LAB.python, [str(LAB.python), "-m", module, *arguments])


if __name__ == "__main__":
    main()
