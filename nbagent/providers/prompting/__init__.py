"""Tools for models that cannot call them: the prompt describes the tools, and the calls are read from the answer."""
