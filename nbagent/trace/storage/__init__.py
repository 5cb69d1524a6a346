"""Traces in files."""
