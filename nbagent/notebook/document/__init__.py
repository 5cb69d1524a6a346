"""The notebook as a document, open in a page (`live`) or in a file: an agent can read it, change it, run its cells and
undo changes.
"""
