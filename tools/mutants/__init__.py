"""How strong the tests are: changes to code and rules that a test must notice (make mutants).

A mutant is the checkout with one change, such as `<` for `<=`. It is killed if a test that judges its file fails, and
survives otherwise; then the test is missing, or the change makes no difference and equivalent.yml says why.

- `judges`: which files are changed, and which tests judge each
- `code`: the changes to Python, as Cosmic Ray makes them
- `rules`: those to Prometheus's rules
- `judging`: putting a mutant before its judges, in a copy of the checkout
- `listed`: mistakes chosen by hand, which `make test` must notice (make mutants-listed)
"""
