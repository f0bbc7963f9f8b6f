"""What every exporter shares: flags, logging, HTTP, exposition, sources read under a deadline, recordings."""
