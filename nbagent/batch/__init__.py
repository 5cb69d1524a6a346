"""Batches: the same question about each row of a table, live, by a provider's batch endpoint, or on a cluster.

`map.py` is where to begin: it makes rows of the data (`rows`), asks an engine for those that the checkpoint does not
hold yet, and puts the answers beside the index (`frame`). An engine yields an `Answer` for each `Row`.
"""
