"""Displays a conversation in cells, the panel and the server's page: the HTML of runs, the panel's state and its
script.
"""
