"""Checkpoints that are whole or absent: written beside training, committed once, found again."""
