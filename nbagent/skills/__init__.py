"""Skills as an agent's tools. A skill is a folder with instructions, files and perhaps a Python entry."""
