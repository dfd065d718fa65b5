"""Figures for CloudWatch: when each is told, in which form, and that the dashboard shows it."""

from __future__ import annotations

import json
import re

import pytest
from samtranslator.yaml_helper import yaml_parse
from tests.support.repository import ROOT

from trainyard.aws.metrics import NAMESPACE, LogMetrics


def test_a_figure_is_a_line_that_cloudwatch_takes_from_the_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    LogMetrics("prod").put("RecoverySeconds", 2.5, "Seconds", cause="node-lost")
    told = json.loads(capsys.readouterr().out)
    [form] = told["_aws"]["CloudWatchMetrics"]
    assert form["Namespace"] == NAMESPACE
    assert [sorted(names) for names in form["Dimensions"]] == [["cause", "stack"]]
    assert [(one["Name"], one["Unit"]) for one in form["Metrics"]] == [
        ("RecoverySeconds", "Seconds")
    ]
    assert (told["RecoverySeconds"], told["stack"], told["cause"]) == ([2.5], "prod", "node-lost")


def test_the_dashboard_and_the_alarm_name_figures_that_are_told() -> None:
    text = (ROOT / "template.yaml").read_text()
    sources = [*ROOT.glob("layers/core/trainyard/app/**/*.py"), *ROOT.glob("functions/*/*.py")]
    told = {
        name
        for path in sources
        for name in re.findall(r"metrics\.put\(\s*\"(\w+)\"", path.read_text())
    }
    shown = set(re.findall(r"\[\"Trainyard\", \"(\w+)\"", text))
    shown |= set(re.findall(r"MetricName=\\+\"(\w+)\\+\"", text))
    alarms = {
        one["Properties"]["MetricName"]
        for one in yaml_parse(text)["Resources"].values()
        if one.get("Properties", {}).get("Namespace") == NAMESPACE
    }
    assert {"RunsEnded", "RecoverySeconds", "ClustersFailed"} <= shown
    assert shown | alarms <= told
