"""The functions layer: kernel functions as a model's tools.

`registry` holds them, `schema` describes them, `validation` checks a model's arguments, `executor` runs them,
`formatting` writes their results for the model; `discovery` finds functions, `live` follows their redefinition.
"""
