"""Traces: an agent's runs as pandas DataFrames in the kernel. They are always on and need no server."""
