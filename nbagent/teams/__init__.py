"""Several agents in one conversation."""
