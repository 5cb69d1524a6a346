"""Batches: the same prompt for each row of a table, live, through a provider's batch endpoint, or on a cluster.

Start with `map.py`. It makes rows from the data (`rows`), passes those without a saved answer to an engine, and aligns
the answers with the index (`frame`). An engine returns an `Answer` for each `Row`.
"""
