"""What every room stands on: exits, failures, configuration, files, and what ranks agree on."""
