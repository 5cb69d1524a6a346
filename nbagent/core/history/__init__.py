"""The conversation: kept, trimmed, repaired, summarised, saved, and previewed before it is sent."""
