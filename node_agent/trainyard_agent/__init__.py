"""The agent on every cluster node"""
