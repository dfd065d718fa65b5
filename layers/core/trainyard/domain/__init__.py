"""Pure rules: no clock, ids, environment or AWS; they come in as arguments."""
