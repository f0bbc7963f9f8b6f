"""Tools for developers: generated documentation, mutants, wording, the mixin."""
