"""News from RSS and Atom feeds: the user's list, how feeds are fetched, and three functions for agents."""
