"""The Slurm of a local cluster."""
