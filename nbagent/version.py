"""The project's name and version."""

#: The project's name on PyPI, where `nbagent` is a different project.
DISTRIBUTION = "jupyter-nbagent"
VERSION = "0.1.0"
