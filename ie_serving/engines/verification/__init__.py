"""Compares a version with a second engine on generated requests before it serves."""
