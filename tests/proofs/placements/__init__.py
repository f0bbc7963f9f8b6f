"""Predictions of response times before guests are moved, compared with what came: `make placements`.

`plan` draws loads and moves (pure), `hosts` runs the lab's sites on two parts of this machine, `pages` shows what the
exporters of such a host would (pure), `chain` has the Prometheus. `states` measures a state, `asking` has what advise
and balancers (`balancers`, pure) choose. `judgement` compares it with what came, `table` shows the result (both pure).
"""
