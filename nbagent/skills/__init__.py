"""Skills as tools of an agent. A skill is a folder with instructions, files and perhaps a Python entry."""
