"""Mistakes that a test must notice: those of listed.yml, and generated ones."""
