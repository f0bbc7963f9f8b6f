"""A package, so that its guests end with the last test of this folder, not with those of others that follow."""
