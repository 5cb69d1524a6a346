"""Traces record an agent's runs in the kernel and return them as pandas DataFrames. They are on by default and need no
server.
"""
