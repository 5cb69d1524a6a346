"""Views of a trace: plots, texts, comparisons and searches."""
