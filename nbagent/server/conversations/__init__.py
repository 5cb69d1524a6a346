"""Where conversations are kept: in memory, in a SQLite file, or in Redis, with the same guarantees."""
