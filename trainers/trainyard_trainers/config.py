"""The name by which programs of users import `common.config`: it stays for them."""

from .common.config import ConfigError, build, parse

__all__ = [
    "ConfigError",
    "build",
    "parse",
]
