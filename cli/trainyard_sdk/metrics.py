"""A run's series, as columns for a chart or a table."""

from __future__ import annotations

from typing import Any

from .answers import MetricsView
from .problems import InvalidInput

_LOSS = "loss"
_COLUMNS = ("at", "step", "attempt")


class Metrics(MetricsView):
    """`points` is the curve of what was asked for, `names` says what else there is; `run` has the
    samples of the training, `nodes` those of each node, oldest first.
    """

    def columns(self) -> dict[str, list[Any]]:
        """The curve by name: `at`, `step`, `loss`, `attempt`; instead of `loss` the name that was
        asked for, or `value` if that is the name of another column.
        """
        asked = self.name if self.name not in _COLUMNS else "value"
        if not self.points and asked == _LOSS:  # of older versions, or steps without a loss
            return {
                column: [getattr(sample, column) for sample in self.run]
                for column in ("at", "step", _LOSS, "attempt")
            }
        columns = {"at": "at", "step": "step", asked: "value", "attempt": "attempt"}
        return {
            column: [getattr(point, field) for point in self.points]
            for column, field in columns.items()
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
