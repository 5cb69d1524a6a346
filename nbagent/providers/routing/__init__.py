"""Providers made of several: which of their members answers a request, and who goes on where one fails.

A `composite.CompositeProvider` names candidates; whoever asks goes on with the next one if one fails in a way that has
nothing to do with the request (`ProviderError.elsewhere`). `fallback` and `router` differ in how they choose. `routes`
answers simple questions with functions, in place of a model.
"""
