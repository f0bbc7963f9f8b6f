"""What happens to a running stack when its parts are killed, hang or run out of something: `make faults`.

`stack` is what is hurt, `remote` a watched host behind a network that can be cut; `catalogue` has the faults, `network`
the one that lasts throughout; `observer` says what each did to samples, alerts and `make status`; `table` shows it
beside the bars. Values: docs/faults.md; bars: docs/dev/faults.md.
"""
