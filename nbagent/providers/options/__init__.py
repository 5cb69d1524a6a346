"""Options of requests that mean the same for every vendor, and the settings of providers."""
