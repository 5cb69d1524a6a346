"""`Agent`, and its run set-up, plans, extraction, summary and worker factory."""
