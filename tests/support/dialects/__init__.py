"""The providers' side of each format, on loopback: scripts become real streams, and requests are checked.

`script` says what is to be answered, a dialect puts it into its provider's words and refuses what the provider would
refuse, `server` serves it, and `providers` knows which provider is how.
"""
