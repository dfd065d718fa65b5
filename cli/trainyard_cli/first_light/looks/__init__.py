"""What first-light looks at.

A look is a function in a file here that names its assumption; being here is its registration.
"""
