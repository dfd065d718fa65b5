"""The control plane of Trainyard."""
