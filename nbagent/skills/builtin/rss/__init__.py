"""News from RSS and Atom feeds: the sources, how they are fetched, and three functions for agents."""
