"""The analyst: an agent that writes, runs and fixes the cells of a notebook."""
