"""What surrounds the agent: its machine, its files, Slurm and AWS as it talks to them."""
