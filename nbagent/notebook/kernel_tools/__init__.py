"""Tools to inspect the notebook, and to run code if the user approves."""
