"""Closed-loop clients: each waits for its answer, thinks, and asks again. They run in a process of their own.

`lab.clients.child.Clients` starts that process and tells it how many clients each application has.
"""
