"""A trace in the forms that other tools read: OpenTelemetry, curl, HTTP archives, files for fine-tuning."""
