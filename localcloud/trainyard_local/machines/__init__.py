"""Nodes that are booted machines."""
