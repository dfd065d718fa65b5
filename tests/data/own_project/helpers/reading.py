"""Reads examples of a file of bytes."""

SIZE = 512


def examples(path):
    """Eight numbers of -1 to 1 from each block, and whether its mean byte is above the middle."""
    body = path.read_bytes()
    for start in range(0, len(body), SIZE):
        block = body[start : start + SIZE]
        numbers = [sum(block[part::8]) / 64 / 127.5 - 1 for part in range(8)]
        yield [1.0, *numbers], sum(block) > 127.5 * SIZE
