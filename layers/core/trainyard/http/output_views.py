"""The objects of an export, with URLs to read them by."""

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from trainyard.app.runs.list_outputs import Outputs
from trainyard.http.views import View


class Output(View):
    """One object of the verified export; `key` is relative to the page's `uri`."""

    key: str
    bytes: int
    sha256: str
    url: str | None = Field(
        default=None, description="with urls=true: anybody can read the object by it for a while"
    )


class OutputPage(View):
    uri: str = Field(
        description="s3://bucket/prefix/ that every key is below; of a sync every object, by its "
        "SHA-256"
    )
    outputs: list[Output]
    source: Literal["export", "sync"] = Field(
        default="export",
        description="export: the verified one; sync: what was copied while the run trains, or "
        "until its cluster was lost, which has hashes, too, and may lack what came after it",
    )
    synced_at: datetime | None = None
    urls_expire_at: datetime | None = None
    next_token: str | None = None

    @classmethod
    def of_outputs(cls, page: Outputs) -> Self:
        found = [
            Output.made(
                key=item.object.key,
                bytes=item.object.bytes,
                sha256=item.object.sha256,
                url=item.url,
            )
            for item in page.items
        ]
        return cls.made(
            uri=page.uri,
            outputs=found,
            source=page.source,
            synced_at=page.at,
            urls_expire_at=page.expires_at,
            next_token=page.next_token,
        )
