"""What every room uses: the attempt, names of files, exits, progress and signals."""
