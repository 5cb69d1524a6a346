"""Traces: an agent's runs as pandas DataFrames inside the kernel, without a server, always on."""
