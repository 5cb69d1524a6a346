"""Exports a trace for other tools: OpenTelemetry, curl, notebooks and files for fine-tuning."""
