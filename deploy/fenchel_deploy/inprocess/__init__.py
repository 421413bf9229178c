"""A federation in one process, without a network: for measurements, attacks and tests."""
