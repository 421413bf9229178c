"""The rounds of a run: the machine that decides, and the driver that acts."""
