"""The checkpoints of a run: which are whole, and their export."""
