"""What bytes and requests cost, as in Menon et al. 2005: the arithmetic, the study's numbers, and a run's report.

Live hosts have the same as records (prometheus/rules/costs.yml); tests hold both to the study's own inputs.
"""
