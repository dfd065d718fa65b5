"""The agent on every cluster node: samples, checks, job control, checkpoints, export, and the events that report them."""
