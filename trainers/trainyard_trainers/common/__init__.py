"""What every room uses: failures, configuration, seeds, and agreement among the ranks."""
