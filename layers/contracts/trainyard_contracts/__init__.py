"""Everything that crosses a process boundary in Trainyard: specs, events, files (pydantic only)."""

from __future__ import annotations

__all__ = ["__version__"]
__version__ = "0.1.0"
