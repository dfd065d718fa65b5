"""The agent on every cluster node.

It samples and checks the node. On the controller it also runs jobs, verifies checkpoints and
exports, and reports all of that in events.
"""
