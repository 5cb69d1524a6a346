"""Requests over HTTP: the client, retries, errors, recording and redaction."""
