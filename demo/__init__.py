"""The main job, for real, shown and measured: `python -m demo`."""
