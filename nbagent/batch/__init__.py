"""Batches: the same prompt for each row of a table, live, through a provider's batch endpoint, or on a cluster.

Begin with `map.py`: it makes rows from the data (`rows`), sends those that the checkpoint lacks to an engine, and
aligns the answers with the index (`frame`). An engine yields an `Answer` for each `Row`.
"""
