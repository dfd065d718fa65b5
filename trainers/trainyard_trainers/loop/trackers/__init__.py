"""Sends steps and losses to MLflow and Weights & Biases, where the environment names them.

A process of its own for each of them (`process.py`) does all that may wait. Training writes to its
pipe and never waits for it: a full pipe loses points.
"""
