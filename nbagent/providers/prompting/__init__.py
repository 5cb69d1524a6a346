"""Tools for models that cannot call them: described in the prompt and read from the reply."""
