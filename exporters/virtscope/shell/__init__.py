"""What every exporter shares: flags, logging, HTTP, exposition, and sources read under a deadline."""
