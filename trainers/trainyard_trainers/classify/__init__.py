"""An image classifier; a launcher that forks ranks finds its main here."""

from .train import main

__all__ = ["main"]
