"""How long a test waits for what has to come: a bound that ends a hang, many times what it takes on a busy machine."""

#: By this much every wait is longer than what its place says, which is right for a machine with nothing else to do.
PATIENCE = 4.0
