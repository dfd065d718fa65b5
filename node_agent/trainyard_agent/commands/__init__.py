"""What the control plane asks of the controller, and the socket over which it does."""
