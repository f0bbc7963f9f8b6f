"""Precision and recall of named neighbours: injected episodes through the real chain, `make truth`.

`episodes` plans the loads (pure), `injection` runs them with `worker.c` and real guests, `chain` observes: exporters,
Prometheus and the project's rules. `judgement` compares names with the injected culprits, `table` shows the result with
the bars (both pure). `trace` records and replays an episode for other estimators, which `comparison` judges (pure).
"""
