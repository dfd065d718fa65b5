"""Every request comes in here: AWS calls, HTTP APIs and admin calls."""
