"""Leak test: the whole stack for hours under churn, and the slopes of its readings. Run by `make soak HOURS=2`."""
