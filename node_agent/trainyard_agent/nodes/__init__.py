"""Which nodes there are and which of them are alive: their links, and what a silence means."""
