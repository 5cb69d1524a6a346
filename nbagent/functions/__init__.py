"""Offers Python functions to a model as tools, and runs the model's calls.

`registry` lists the functions, `schema` describes them, `validation` checks a model's arguments, `executor` runs the
calls, and `formatting` writes results for the model. `discovery` finds functions, and `live` follows redefinitions.
"""
