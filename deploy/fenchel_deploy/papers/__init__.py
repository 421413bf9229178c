"""The experiments of the papers, executed: `fenchel experiment`."""
