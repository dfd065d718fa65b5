"""Puts operations on moto's SageMaker, and tags on resources that moto knows nothing of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from moto.core.responses import ActionResult
from moto.sagemaker.responses import SageMakerResponse

Answer = Callable[[Any], Mapping[str, Any]]
"""From an operation's parameters to its output."""
TAGS = ("list_tags", "add_tags", "delete_tags")
#: What was there by ours in its place: a second cloud of a process, as in tests, finds it.
_originals: dict[Callable[..., Any], Callable[..., Any]] = {}


def snake(operation: str) -> str:
    """The name of moto's method for an operation."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in operation).lstrip("_")


def install(operation: str, answer: Answer) -> None:
    """Let this answer the operation. What it answers with is sent as botocore's model has it."""

    def method(self: Any) -> ActionResult:
        params = {key: value for key, value in dict(self.params).items() if value is not None}
        return ActionResult(dict(answer(params)))

    setattr(SageMakerResponse, snake(operation), method)


def install_tags(kind: str, tags_of: Callable[[str], dict[str, str]]) -> None:
    """Keep the tags of resources with this word in their ARNs in the dict that `tags_of` gives."""
    for name in TAGS:
        setattr(SageMakerResponse, name, _tags_method(kind, name, tags_of))


def _tags_method(
    kind: str, name: str, tags_of: Callable[[str], dict[str, str]]
) -> Callable[[Any], ActionResult]:
    installed = getattr(SageMakerResponse, name)
    original = _originals.get(installed, installed)

    def method(self: Any) -> ActionResult:
        arn = str(self.params.get("ResourceArn", ""))
        if f":{kind}/" not in arn:
            return original(self)
        return ActionResult(change(name, tags_of(arn), self.params))

    _originals[method] = original
    return method


def change(name: str, tags: dict[str, str], params: Mapping[str, Any]) -> dict[str, Any]:
    """Do to the tags what the operation asks for, and answer as it does."""
    for key in params.get("TagKeys") or []:
        tags.pop(key, None)
    tags.update({tag["Key"]: tag["Value"] for tag in params.get("Tags") or []})
    return {} if name == "delete_tags" else {"Tags": as_list(tags)}


def as_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as SageMaker's answers have them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]
