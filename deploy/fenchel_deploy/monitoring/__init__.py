"""Metrics of a server or a client for Prometheus: in base units, with labels that take few values.

No label is the name of a run, a sample or a feature. Names of parties are those of the roster.
"""
