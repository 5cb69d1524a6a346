"""A conversation's history: kept within limits, repaired, summarised, saved, and previewed before a request."""
