"""Runs the stack on this machine without Docker: `make up` calls `python3 -m deploy.stack up`.

Only Python's standard library is needed: these modules run before anything is installed.
"""

import sys

# Not sys.version_info, whose check ruff would remove as outdated: the message is for users of an old Python.
if sys.hexversion < 0x030B0000:
    version = sys.version.split()[0]
    sys.exit(f"error: Python {version} is too old, the stack needs 3.11 or newer (if you have one: PYTHON=python3.11)")


class StackError(Exception):
    """A command of the stack failed. The message is one line for the user: the problem and the remedy."""
