"""Starts the processes of a job on one node, watches them, and says how they ended."""
