"""The providers, one file each: its facts (`VENDOR`), how its models behave (`PROFILES`), and its class if it has one.

`nbagent.providers.catalog` names the modules and looks them up.
"""
