"""Text from models and tools for people: as safe HTML and as plain text."""
