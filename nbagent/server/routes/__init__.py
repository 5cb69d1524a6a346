"""The protocols of the server. Each route converts a client's request to a `RunRequest`, and writes the run's events in
its protocol.
"""
