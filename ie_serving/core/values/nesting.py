"""Limit for graphs within graphs: checked for one file at once, for directories as they load."""

MOST_NESTED = 16
"""Most nested graphs, the outermost included: each level takes some ten of Python's 1,000 stack
frames."""
