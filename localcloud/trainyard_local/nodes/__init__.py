"""Nodes that are process trees, and what every kind of node has."""
