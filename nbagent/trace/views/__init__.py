"""What people look at in a trace: pictures, texts, comparisons, searches."""
