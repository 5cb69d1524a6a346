"""What a model is told about a function: its JSON Schema, read from signature and docstring."""
