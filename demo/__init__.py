"""Runs the main job on real parts, shows it and measures it: `python -m demo`."""
