"""Request options that mean the same for every provider, and the providers' settings."""
