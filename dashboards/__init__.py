"""Grafana dashboards, from query to screen; each layer imports only the layers above it.

signals/      a quantity: its query, unit and meaning, defined once
panels.py     how a quantity looks: number, lines, stack; tables.py: as columns
waiting.py    panels about CPU wait that several pages share
layout.py     rows of panels under the dashboard's question; common variables (variables.py)
pages/        the dashboards
build.py      writes them to json/, from which Grafana is provisioned (provisioning/)
"""
