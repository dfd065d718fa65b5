"""What first-light looks at: a look is a function in a file here that names its assumption; being here is its registration."""
