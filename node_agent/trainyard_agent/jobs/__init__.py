"""Attempts and their jobs: following them, ending them, and reporting how they ended."""
