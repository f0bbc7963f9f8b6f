"""A package, so that its guests end with the last test of this folder."""
