"""The dashboards, one module each, named like its JSON file; `make` builds it."""
