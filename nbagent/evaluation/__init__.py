"""Evaluations: agents answer the rows of a frame, and scorers judge the answers.

Begin with `evaluate.py`: it maps each agent over the frame and adds a column for each of the `scorers`. A
`result.Evaluation` has the rows and summarises them (`intervals`).
"""
