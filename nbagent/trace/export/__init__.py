"""Exports a trace for other tools: OpenTelemetry, curl, HTTP archives, files for fine-tuning."""
