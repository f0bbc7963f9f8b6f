"""Closed-loop clients: each sends a request, waits for the answer, and thinks. They run in their own process.

`lab.clients.child.Clients` starts that process and sets each application's number of clients.
"""
