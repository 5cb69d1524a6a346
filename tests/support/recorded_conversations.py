"""Recorded conversations."""

from itertools import groupby

from support.recordings import load


def conversations(api):
    """Those of one API, each a list of records in their order."""
    found = [record for record in load("dev.jsonl") if record["api"] == api and record["conversation"]]
    found.sort(key=lambda record: (record["conversation"], record["turn"]))
    return [list(turns) for _, turns in groupby(found, lambda record: record["conversation"])]
