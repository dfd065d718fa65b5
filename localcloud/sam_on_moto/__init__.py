"""A local cloud that deploys and runs SAM templates on moto."""
