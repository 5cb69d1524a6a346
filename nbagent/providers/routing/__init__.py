"""Routing: which of several models answers (`candidates`), or a function instead of a model (`routes`)."""
