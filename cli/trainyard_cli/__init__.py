"""The trainyard command."""
