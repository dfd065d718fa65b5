"""FSx for Lustre of the local cloud: a filesystem is a directory below the state directory."""
