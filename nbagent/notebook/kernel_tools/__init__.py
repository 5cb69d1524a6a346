"""Tools that let a model look at the notebook, and run code if you let it."""
