"""Amounts as a person reads them, in sentences of the agent and of the control plane."""

from __future__ import annotations


def size(count: int) -> str:
    """Bytes in the binary unit that keeps them short, as the CLI shows them."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
