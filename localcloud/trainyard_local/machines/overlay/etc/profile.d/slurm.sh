# Slurm lies outside the usual directories, so only login shells find it.
export PATH=/opt/slurm/bin:/opt/slurm/sbin:$PATH
