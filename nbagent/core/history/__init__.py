"""A conversation's history: limits, repair, summaries, saving, and previews of requests."""
