"""The commands that the control plane sends to the controller, and their socket."""
