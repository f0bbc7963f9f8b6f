"""Prometheus exporters that show what virtualisation costs."""

__version__ = "0.1.0"
