"""Reports of KVM guests' tests."""

from __future__ import annotations

from tests.support.reporting import pytest_terminal_summary, report

__all__ = ["pytest_terminal_summary", "report"]
