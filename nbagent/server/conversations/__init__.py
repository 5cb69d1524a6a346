"""Keeps conversations in memory, in a SQLite file, or in Redis, with the same guarantees."""
