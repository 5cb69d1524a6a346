"""`Agent` and its surroundings: run set-up, plans, side questions, the summary."""
