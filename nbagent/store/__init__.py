"""nbagent's SQLite files, which keep traces, server conversations, map answers and notes."""
