"""The dashboards, a module each, named as its JSON file; `make` makes it."""
