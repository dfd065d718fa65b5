"""Session Manager for local nodes."""
