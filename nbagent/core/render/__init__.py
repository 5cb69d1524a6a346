"""Shows text from models and tools to people, as safe HTML and as plain text."""
