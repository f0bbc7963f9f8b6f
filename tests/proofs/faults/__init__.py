"""The effect on a running stack if its parts are killed, hang or run out of a resource: `make faults`.

`stack` is the stack under test, `remote` a watched host behind a network that can be cut. `catalogue` has the faults,
`network` the one that lasts throughout. `observer` records the effect of each on samples, alerts and `make status`;
`table` compares it with the bars. Values: docs/faults.md; bars: docs/dev/faults.md.
"""
