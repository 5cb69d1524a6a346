"""SQLite, where nbagent keeps what lasts: traces, conversations of the server, answers of maps, notes."""
