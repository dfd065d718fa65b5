"""Lambda functions, each in runtime processes of its own, and the machines that call them."""
