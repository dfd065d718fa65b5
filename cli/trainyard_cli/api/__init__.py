"""Calls to the HTTP API: which one, signed how, and what its answers say."""
