"""`Agent` and what surrounds it: the set-up of its runs, plans, questions beside the conversation, its summary."""
