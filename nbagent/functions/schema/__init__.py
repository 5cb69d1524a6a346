"""Builds the JSON Schema that a model gets for a function, from the signature and the docstring."""
