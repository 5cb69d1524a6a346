"""Recordings: what models answered, kept in a file and played again."""
