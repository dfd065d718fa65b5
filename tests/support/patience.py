"""How long a test waits for what has to come: a bound that ends a hang even on a busy machine."""

#: Every wait is so many times longer than its place says, which suits a machine without other work.
PATIENCE = 10.0
#: Seconds, and never longer than this: pytest ends a test after 900.
LONGEST = 600.0


def patient(seconds: float) -> float:
    """The bound of a wait that takes at most `seconds` without other work."""
    return min(PATIENCE * seconds, LONGEST)
