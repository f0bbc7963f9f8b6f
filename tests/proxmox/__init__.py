"""A package, so that its machine ends with the last test of this folder."""
