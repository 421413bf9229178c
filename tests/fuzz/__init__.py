"""Fuzzing of every decoder of bytes from outside: `python -m fuzz.campaign` runs it at length."""
