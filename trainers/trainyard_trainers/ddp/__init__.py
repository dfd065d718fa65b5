"""The job of torch's data-parallel tutorial, made fast; a launcher that forks ranks finds its main
here.
"""

from .train import main

__all__ = ["main"]
