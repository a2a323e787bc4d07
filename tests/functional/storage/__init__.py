"""A package, so that the stores end with its tests: an idle one takes 1 % of a processor."""
