"""What surrounds the agent: its machine, its files, and how it calls Slurm and AWS."""
