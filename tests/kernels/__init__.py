"""A package, so that its machines end with the last test of this folder."""
