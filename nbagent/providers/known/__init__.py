"""The known providers, one file each: facts (`FACTS`), models' behaviour (`PROFILES`), and the provider class, if there
is one.

`nbagent.providers.catalog` lists the modules and looks them up.
"""
