"""Lambda functions, each in runtime processes of its own."""
