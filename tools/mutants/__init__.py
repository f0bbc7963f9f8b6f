"""Mutation testing: changes to code and rules that a test must notice (make mutants).

A mutant is the checkout with one change, such as `<` for `<=`. It is killed if a test of its file fails, and otherwise
survives: then a test is missing, or the change makes no difference and equivalent.yml has the reason.

- `judges`: the files to change, and the tests that judge each
- `code`: changes to Python, by Cosmic Ray
- `rules`: changes to Prometheus's rules
- `judging`: runs a mutant's tests in a copy of the checkout
- `listed`: manually chosen mistakes that `make test` must notice (make mutants-listed)
"""
