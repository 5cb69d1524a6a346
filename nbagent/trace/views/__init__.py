"""Views of a trace: pictures, texts, comparisons, searches."""
