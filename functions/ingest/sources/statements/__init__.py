"""Nodes of the statement store."""
