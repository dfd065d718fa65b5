"""ParallelCluster for the local cloud: its API, and clusters of real nodes whose queues scale."""
