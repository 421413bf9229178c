"""How a run goes from phase to phase."""
