"""The analyst: an agent that writes, runs and mends the cells of a notebook."""
