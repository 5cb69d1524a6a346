"""The vendors' side of each format, on loopback: neutral scripts become real streams, requests are checked.

`script` says what is to be answered, a dialect puts it into its vendor's words and refuses what the vendor would
refuse, `server` serves it, and `vendors` knows which vendor is how.
"""
