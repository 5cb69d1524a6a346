"""Views of a trace: plots, texts, comparisons, searches."""
