"""The agent's events, stored until the bus has them."""
