"""Text from models and tools, rendered for people: safe HTML and plain text."""
