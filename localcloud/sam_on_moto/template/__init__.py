"""A SAM template becomes resources that run."""
