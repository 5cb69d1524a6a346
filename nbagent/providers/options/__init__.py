"""Options of requests that mean the same for every provider, and the settings of providers."""
