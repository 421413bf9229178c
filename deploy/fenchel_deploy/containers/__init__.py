"""Federations of containers, through the Docker engine's API."""
