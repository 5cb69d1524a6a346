"""Request options with the same meaning for every provider, and the providers' settings."""
