"""What every room uses: exits, failures, configuration, files, and agreement among the ranks."""
