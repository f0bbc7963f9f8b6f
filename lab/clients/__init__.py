"""Closed-loop clients: each sends a request, waits for the answer, and thinks. They run in a process of their own.

`lab.clients.child.Clients` starts that process and tells it how many clients each application has.
"""
