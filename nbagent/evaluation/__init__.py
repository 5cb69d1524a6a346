"""Evaluations: agents answer the rows of a frame, and scorers judge the answers.

`evaluate.py` is where to begin: it maps each agent over the frame and adds a column for each of the `scorers`. A
`result.Evaluation` holds the rows and summarises them (`intervals`).
"""
