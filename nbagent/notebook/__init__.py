"""nbagent in Jupyter: the `%%agent` magic, its displays, the chat panel, and tools that look at the notebook."""
