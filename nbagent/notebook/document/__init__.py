"""The notebook as a document that an agent can read, change, run and undo: open in a page (`live`), or in a file."""
