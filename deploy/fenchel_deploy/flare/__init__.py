"""Fenchel inside NVIDIA FLARE: the server in the job process of FLARE's server, each party in that of its site."""
