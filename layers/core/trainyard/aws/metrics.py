"""Figures for CloudWatch, written to the function's log in the Embedded Metric Format."""

from __future__ import annotations

from trainyard.outside.figures import MetricUnit

NAMESPACE = "Trainyard"


class LogMetrics:
    """ports.Metrics: a line for each figure, with the stack's name as a dimension of all."""

    def __init__(self, stage: str) -> None:
        self._stage = stage

    def put(self, name: str, value: float, unit: MetricUnit = "Count", **dimensions: str) -> None:
        # Here, because most calls of a function write none and a cold start must not wait for it.
        from aws_lambda_powertools.metrics import MetricUnit as Units
        from aws_lambda_powertools.metrics import single_metric

        with single_metric(name=name, unit=Units(unit), value=value, namespace=NAMESPACE) as metric:
            for key, text in {"stack": self._stage, **dimensions}.items():
                metric.add_dimension(key, text)
