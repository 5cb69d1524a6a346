"""Notes that agents keep from one conversation, and one kernel, to the next."""
