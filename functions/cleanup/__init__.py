"""Cleanup queue to nothing: erase rules that are out of force."""
