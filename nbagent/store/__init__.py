"""nbagent's SQLite files, which contain traces, server conversations, map answers and notes."""
