"""A conversation as cells, the panel and the server's page show it: runs as HTML, the state of a panel, its script."""
