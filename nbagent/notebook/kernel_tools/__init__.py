"""Tools with which a model looks at the notebook, and runs code if the user approves."""
