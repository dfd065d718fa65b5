"""Which rank this process is, and how the ranks of a job agree through the shared directory."""
