"""Converts text from models and tools to safe HTML and plain text for display."""
