"""Cost of monitoring, measured next to programs with the same task. Run by `make bench`."""
