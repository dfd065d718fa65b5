"""A directory becomes a tree and packs, and goes up."""
