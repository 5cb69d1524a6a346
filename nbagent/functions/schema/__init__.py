"""Builds a function's JSON Schema for the model from its signature and docstring."""
