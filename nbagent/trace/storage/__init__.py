"""Saving, loading and streaming traces."""
