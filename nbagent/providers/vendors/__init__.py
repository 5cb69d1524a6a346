"""The vendors: where each is, how its models behave, which keys it reads."""
