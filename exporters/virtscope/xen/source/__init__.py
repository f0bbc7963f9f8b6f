"""Where xentop-exporter's figures come from, a module for each source."""
