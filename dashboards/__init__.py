"""Grafana dashboards, from query to screen; each layer imports those above it only.

signals/      a quantity: its query, unit and meaning, said once
panels.py     how a quantity looks: a number, a line, a stack; tables.py: as columns
waiting.py    what several pages show of waiting for a CPU
layout.py     rows of panels under the question that a dashboard answers; the variables of all (variables.py)
pages/        the dashboards
build.py      writes them to json/, from which Grafana is provisioned (provisioning/)
"""
