"""Chooses which of several models answers (`candidates`), or lets a function answer instead of a model (`routes`)."""
