"""The protocols of the server. A route reads its protocol into a `RunRequest`, and writes the events of the run."""
