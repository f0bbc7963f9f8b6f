"""Code shared by all exporters, independent of platform. pyproject.toml lists the allowed imports."""
