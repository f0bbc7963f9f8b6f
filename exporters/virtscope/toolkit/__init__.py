"""What every exporter shares; it knows no platform. pyproject.toml has which file may import which."""
