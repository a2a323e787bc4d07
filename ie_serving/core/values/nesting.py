"""How deep graphs may lie within graphs: of one file all at once, of directories as they load."""

MOST_NESTED = 16
"""Graphs within one another, the outermost included: each holds the one within it in some ten of
Python's 1,000 frames."""
