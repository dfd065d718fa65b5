"""Checkpoints that are whole or absent: writing them beside training, committing, finding them."""
