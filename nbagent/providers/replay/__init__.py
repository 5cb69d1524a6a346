"""Recordings: models' answers, saved in a file and replayed."""
