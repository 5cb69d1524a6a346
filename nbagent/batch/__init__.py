"""Batches: send a prompt for each row of a table, live, through a provider's batch endpoint, or on a cluster.

Start with `map.py`. It turns the data into rows (`rows`), passes the unanswered rows to an engine, and aligns the
answers with the index (`frame`). An engine returns an `Answer` for each `Row`.
"""
