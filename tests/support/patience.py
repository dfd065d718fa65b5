"""How long a test waits for what has to come: a bound that ends a hang even on a busy machine."""

#: Every wait is so many times longer than its place says, which suits a machine without other work.
PATIENCE = 4.0
