"""What developers of this checkout run: documentation from data, mutants, wording, the mixin."""
