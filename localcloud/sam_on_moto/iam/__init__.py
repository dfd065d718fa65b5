"""Who calls, and may they."""
