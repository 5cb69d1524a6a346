"""The protocols of the server. Each route converts a client's request to a `RunRequest`, and sends the run's events in
the client's protocol.
"""
