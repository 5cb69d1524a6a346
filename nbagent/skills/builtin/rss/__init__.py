"""News from RSS and Atom feeds: the user's list, fetching, and three functions for agents."""
