"""The protocols of the server. A route converts its protocol to a `RunRequest`, and writes the run's events."""
