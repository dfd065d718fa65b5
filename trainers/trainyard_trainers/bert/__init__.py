"""BERT fine-tuned on pairs of sentences; a launcher that forks ranks finds its main here."""

from .train import main

__all__ = ["main"]
