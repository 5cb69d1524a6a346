"""Traces record an agent's runs as pandas DataFrames in the kernel. They are on by default and need no server."""
