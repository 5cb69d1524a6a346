"""Evaluations: agents answer the rows of a frame, and scorers score the answers.

Start with `evaluate.py`. It maps each agent over the frame, and adds a column for each of the `scorers`. The result is
an `Evaluation` (`result`), which summarises the rows with confidence `intervals`.
"""
