"""Displays a conversation in cells, the panel and the server's page: runs as HTML, the state of a panel, its script."""
