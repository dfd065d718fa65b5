"""The name by which programs of users import `common.config`: it stays for them."""

from .common.config import ConfigError, build, describe, parse, read_file, read_words

__all__ = [
    "ConfigError",
    "build",
    "describe",
    "parse",
    "read_file",
    "read_words",
]
