"""Mistakes that a test must notice (make mutants): listed.yml."""
