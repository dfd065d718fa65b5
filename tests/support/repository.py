"""Where the repository lies, so that a test which reads its files may itself lie anywhere."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
