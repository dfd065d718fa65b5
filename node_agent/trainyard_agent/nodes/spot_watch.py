"""Asks a spot instance's metadata whether EC2 takes it back; it says so two minutes before.

Version 2 of the metadata service: each question carries a token that was asked for before.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
from http import HTTPStatus
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

#: AWS recommends this.
LOOK_SECONDS = 5.0
ANSWER_SECONDS = 2.0
TOKEN_SECONDS = 3600
_TOKEN = "/latest/api/token"  # noqa: S105 - a path
_ACTION = "/latest/meta-data/spot/instance-action"
_ENDS = ("terminate", "stop", "hibernate")


class SpotWatch:
    """`notice` is when the instance ends, as EC2 says it; None while EC2 says nothing."""

    def __init__(self, endpoint: str) -> None:
        url = urlsplit(endpoint)
        self._host, self._path, self._token = url.netloc, url.path.rstrip("/"), ""
        self.notice: str | None = None

    async def run(self) -> None:
        """Until a notice came: none is ever taken back."""
        while self.notice is None:
            try:
                self.notice = await asyncio.to_thread(self.look)
            except (OSError, ValueError, http.client.HTTPException) as error:
                log.info("the instance's metadata do not answer: %s", error)
            if self.notice is None:
                await asyncio.sleep(LOOK_SECONDS)
        log.warning("EC2 takes this instance back at %s", self.notice)

    def look(self) -> str | None:
        """Ask once (blocks). Raises OSError, ValueError, http.client.HTTPException."""
        if not self._token:
            self._token = self._ask("PUT", _TOKEN, ttl=True)[1]
        status, text = self._ask("GET", _ACTION)
        if status == HTTPStatus.UNAUTHORIZED:
            self._token = ""
        if status != HTTPStatus.OK:
            return None
        said = json.loads(text)
        return str(said["time"])[:40] if said.get("action") in _ENDS else None

    def _ask(self, method: str, path: str, *, ttl: bool = False) -> tuple[int, str]:
        name = "X-aws-ec2-metadata-token"
        headers = {f"{name}-ttl-seconds": str(TOKEN_SECONDS)} if ttl else {name: self._token}
        connection = http.client.HTTPConnection(self._host, timeout=ANSWER_SECONDS)
        try:
            connection.request(method, self._path + path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(4096).decode(errors="replace")
        finally:
            connection.close()
