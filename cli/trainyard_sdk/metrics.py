"""A run's series, as columns for a chart or a table."""

from __future__ import annotations

from typing import Any

from .answers import MetricsView
from .problems import InvalidInput


class Metrics(MetricsView):
    """`run` has the samples of the training, `nodes` those of each node, oldest first."""

    def columns(self) -> dict[str, list[Any]]:
        """The training's samples by name: `at`, `step`, `loss`, `attempt`."""
        return {
            name: [getattr(sample, name) for sample in self.run]
            for name in ("at", "step", "loss", "attempt")
        }

    def to_pandas(self) -> Any:
        """The same as a DataFrame, by time. Raises InvalidInput without pandas."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise InvalidInput(
                "pandas is not installed",
                str(error),
                "Run: pip install 'trainyard[pandas]'; or use columns(), which needs nothing",
            ) from error
        return pandas.DataFrame(self.columns()).set_index("at")
