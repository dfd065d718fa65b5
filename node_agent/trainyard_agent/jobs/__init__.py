"""Attempts and their jobs: followed, ended, and told how they went."""
