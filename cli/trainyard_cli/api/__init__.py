"""Calls to the HTTP API: finding it, signing requests, and reading answers."""
