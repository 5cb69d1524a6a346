"""`%%agent` and `%agent`: their options, commands and completion."""
