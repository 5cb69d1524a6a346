"""Offers Python functions to a model as tools, and runs the calls that the model makes.

`registry` holds the functions, `schema` describes them, `validation` checks a model's arguments, `executor` runs the
calls, `formatting` writes results for the model. `discovery` finds functions, `live` follows their redefinition.
"""
