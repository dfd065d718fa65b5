"""The page about Slack has the manifest of an app that Slack takes, and the commands there are."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from typing import Any

import yaml
from samtranslator.yaml_helper import yaml_parse
from tests.support.repository import ROOT
from tests.support.slack import WHO

from trainyard.chat.commands import COMMANDS
from trainyard.chat.members import person_of

PAGE = (ROOT / "docs/use/slack.md").read_text()


def fence(language: str) -> str:
    """The page's one fence of this language, which is part of a list."""
    (found,) = re.findall(rf"^   ```{language}\n(.*?)^   ```", PAGE, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found)


def test_the_manifest_keeps_the_limits_of_slacks_schema_and_asks_for_two_scopes() -> None:
    manifest: dict[str, Any] = yaml.safe_load(fence("yaml"))
    shown = manifest["display_information"]
    assert len(shown["name"]) <= 35
    assert len(shown["description"]) <= 140
    (command,) = manifest["features"]["slash_commands"]
    assert re.fullmatch(r"/\S{1,31}", command["command"])
    assert command["should_escape"] is True
    assert manifest["oauth_config"] == {"scopes": {"bot": ["commands", "chat:write"]}}


def test_the_manifest_leads_to_the_routes_of_the_template() -> None:
    manifest = yaml.safe_load(fence("yaml"))
    (command,) = manifest["features"]["slash_commands"]
    function = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["SlackFunction"]
    events = function["Properties"]["Events"]
    assert command["url"] == f"https://API{events['Commands']['Properties']['Path']}"
    clicks = f"https://API{events['Interactions']['Properties']['Path']}"
    interactivity = manifest["settings"]["interactivity"]
    assert interactivity == {"is_enabled": True, "request_url": clicks}
    happenings = f"https://API{events['Happenings']['Properties']['Path']}"
    subscribed = manifest["settings"]["event_subscriptions"]
    assert subscribed == {"request_url": happenings, "bot_events": ["app_home_opened"]}
    assert manifest["features"]["app_home"]["home_tab_enabled"] is True


def test_every_command_is_in_the_pages_table_and_in_the_manifests_hint() -> None:
    (command,) = yaml.safe_load(fence("yaml"))["features"]["slash_commands"]
    for word, one in COMMANDS.items():
        assert f"{word} {one.given}".strip() in command["usage_hint"]
        assert re.search(rf"^\| `/trainyard {word}\b", PAGE, re.MULTILINE), word


def test_the_pages_list_of_people_is_one_that_is_read() -> None:
    alice = person_of(fence("json"), WHO)
    assert alice is not None
    assert alice.name == "alice"
    for who in json.loads(fence("json")):
        assert person_of(fence("json"), who) is not None


def test_the_pages_story_has_the_stages_that_make_story_prints() -> None:
    """Seconds differ from time to time; the stages and their bounds do not."""
    source = ast.parse((ROOT / "demo/one_story.py").read_text())
    acts = [one for one in source.body if isinstance(one, ast.FunctionDef)]
    said = {one.name: ast.get_docstring(one) for one in acts}
    (named,) = [
        one.value
        for one in source.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "ACTS"
    ]
    assert isinstance(named, ast.Tuple)
    lines = PAGE.splitlines()
    titles = [said[ast.unparse(one)] for one in named.elts]
    assert [lines.count(title) for title in titles if title] == [1] * 6
    within = re.findall(r"^ +(\d+\.\d\d) s  .*\(within (\d) s\)$", PAGE, re.MULTILINE)
    assert len(within) == 8
    assert all(float(took) <= float(bound) for took, bound in within)
