"""`trainyard doctor`: what will fail in an account and a region, found by reading only."""
