"""Running the stack on this machine without Docker. `python3 -m deploy.stack up` is what `make up` does.

Nothing but Python's standard library is needed: these modules run before anything is installed.
"""

import sys

# Not sys.version_info, which ruff takes for a leftover: it is an old Python that must see the message.
if sys.hexversion < 0x030B0000:
    version = sys.version.split()[0]
    sys.exit(f"error: Python {version} is too old, the stack needs 3.11 or newer (if you have one: PYTHON=python3.11)")


class StackError(Exception):
    """The stack can't do what was asked. The message is one line for the user: what is wrong and what to do."""
