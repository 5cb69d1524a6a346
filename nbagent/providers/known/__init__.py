"""The providers, one file each: the facts (`FACTS`), how the models behave (`PROFILES`), the provider if it has its
own.

`nbagent.providers.catalog` names the modules and looks them up.
"""
