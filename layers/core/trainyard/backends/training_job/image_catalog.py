"""AWS's images for training jobs, as `images.json` lists them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel)


class Image(_Read):
    """One repository, for some Pythons; `end` closes its tags."""

    repository: str
    pythons: list[str]
    registries: int
    end: str = ""


class Family(_Read):
    """Images of one framework: by version, and by what Hugging Face's are built on ('' else)."""

    processors: list[str]
    aliases: dict[str, str]
    images: dict[str, dict[str, list[Image]]]


class Images(_Read):
    """All that images.json says; `registries` are accounts by region."""

    source: str
    date: str
    families: dict[str, Family]
    registries: list[dict[str, str]]
    suffixes: dict[str, str]
    tag_ends: dict[str, str]


@cache
def known() -> Images:
    data: Any = json.loads(Path(__file__).with_name("images.json").read_text())
    return Images.model_validate(data)
