"""The layer of a test, by its mark: `make test`, `make test-system` or `make test-all`."""

import pytest

from deploy import go_programs
from deploy.go_programs import Layer

_running: Layer = "all"  # outside of tests, such as in tests/proofs/bench/


def of(item: pytest.Item) -> Layer:
    """The layer of its marks."""
    if item.get_closest_marker("long"):
        return "all"
    return "system" if item.get_closest_marker("system") else "quick"


def enter(item: pytest.Item) -> None:
    global _running  # noqa: PLW0603  # one test at a time runs in a process
    _running = of(item)


def mark_by_parameters(item: pytest.Item) -> None:
    """Move a case to `make test-system` or `make test-all` if a parameter names a Go program built there."""
    callspec = getattr(item, "callspec", None)
    if of(item) != "quick" or callspec is None:
        return
    built = [go_programs.PROGRAMS.get(value) for value in callspec.params.values() if isinstance(value, str)]
    layers = {program.module.layer for program in built if program}
    if layers - {"quick"}:
        item.add_marker("long" if "all" in layers else "system")


def require_built_here(name: str) -> None:
    """Fail a test of `make test` that needs a Go program that only `make test-system` builds."""
    if _running == "quick" and go_programs.PROGRAMS[name].module.layer != "quick":
        pytest.fail(f"`make test` doesn't build {name}: mark the test `system`, or use Debian's package")
