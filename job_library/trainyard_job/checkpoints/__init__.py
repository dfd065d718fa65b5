"""Checkpoints that exist whole or not at all, and how often they are made."""
