"""Erases rules that are out of force, on request."""
