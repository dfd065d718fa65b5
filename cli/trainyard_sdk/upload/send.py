"""Brings a packed directory up: what is missing is sent, eight packs at a time, until all is there.

It can be killed at any moment. What arrived is never sent again.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import httpx

from ..client import Client, Json
from ..problems import SdkError, Unreachable
from ..progress import Counted, Told
from .packing import Packed

AT_ONCE = 8
#: Of one pack, with a pause before each that doubles.
TRIES = 5
PAUSE_SECONDS = 0.5
#: So often the API may miss as much as before, though everything was sent.
ROUNDS_WITHOUT_PROGRESS = 3
_PASSING = frozenset({"RequestTimeout", "InternalError", "SlowDown", "ServiceUnavailable"})
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")


class _Stopped(Exception):
    """Another transfer failed, or the person pressed Ctrl-C."""


def send(client: Client, packed: Packed, told: Told, name: str | None = None) -> int:
    """Send what is missing; how many packs that were. A name is given to the whole, once it is up.

    Raises FileChanged if a file is not what was packed, and SdkError.
    """
    return _Sending(client, packed, told).run(name)


class _Sending:
    def __init__(self, client: Client, packed: Packed, told: Told) -> None:
        self._client, self._packed = client, packed
        self._counted = Counted(told)
        self._stop = threading.Event()
        self._refusal = ""
        self._sent = 0
        local = client.connection.local is not None
        self._http = httpx.Client(
            timeout=httpx.Timeout(60.0, connect=10.0), verify=not local, trust_env=not local
        )

    def run(self, name: str | None) -> int:
        spec = self._packed.upload.model_dump(mode="json", by_alias=True, exclude_none=True)
        spec |= {"name": name} if name is not None else {}
        before, stuck = None, 0
        with self._http:
            while (answer := self._client.create_upload(spec))["state"] != "Complete":
                count = int(answer["missingCount"])
                stuck = 0 if before is None or count < before else stuck + 1
                before = count
                if stuck == ROUNDS_WITHOUT_PROGRESS:
                    raise self._given_up(count)
                if stuck:
                    self._stop.wait(_pause(stuck))
                self._round(answer)
        return self._sent

    def _round(self, answer: Json) -> None:
        missing: list[Json] = answer["missing"]
        self._expect(missing, int(answer["missingCount"]))
        pool = ThreadPoolExecutor(max_workers=AT_ONCE)
        try:
            doing = [pool.submit(self._bring, pack) for pack in missing]
            done, _ = wait(doing, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            self._stop.clear()

    def _expect(self, missing: list[Json], count: int) -> None:
        """An answer names a part of what is missing; the rest is taken for as large on average."""
        listed = sum(int(pack["bytes"]) for pack in missing)
        rest = (count - len(missing)) * listed // max(1, len(missing))
        self._counted.remain(listed + rest)

    def _bring(self, pack: Json) -> None:
        """Send one pack; one whose URL is no longer good stays missing."""
        for attempt in range(1, TRIES + 1):
            if self._stop.is_set():
                return
            wrong = self._put(pack)
            if not wrong:
                self._sent += 1
                return
            self._refusal = wrong
            self._counted.at(pack["sha256"], 0)
            if wrong.startswith("403"):
                return
            if attempt < TRIES:
                self._stop.wait(_pause(attempt))
        raise Unreachable(
            "The upload does not get through",
            f"a pack of {pack['bytes']} bytes, {TRIES} times: {self._refusal}",
            "Do the same again: what is up stays there, and only the rest is sent",
        )

    def _put(self, pack: Json) -> str:
        """'' when it is there, else what passes: 403 asks for another URL. Raises SdkError."""
        headers = {**pack["headers"], "content-length": str(pack["bytes"])}
        try:
            answer = self._http.put(pack["url"], content=self._contents(pack), headers=headers)
        except _Stopped:
            return "stopped"
        except httpx.TransportError as error:
            return str(error) or type(error).__name__
        code, words = _code(answer), _words(answer)
        # 412: somebody else's is there already, with the same contents.
        if answer.is_success or answer.status_code == 412:
            return ""
        if answer.status_code in (403, 409, 429) or answer.is_server_error or code in _PASSING:
            return words
        raise SdkError(
            "The data bucket refuses a pack",
            f"{pack['sha256']}: {words}",
            "Do the same again; if it stays, the command's version and the stack's may differ",
        )

    def _contents(self, pack: Mapping[str, Any]) -> Iterator[bytes]:
        done = 0
        for block in self._packed.contents(pack["sha256"]):
            if self._stop.is_set():
                raise _Stopped
            yield block
            done += len(block)
            self._counted.at(pack["sha256"], done)

    def _given_up(self, count: int) -> SdkError:
        return SdkError(
            "The upload does not become whole",
            f"{count} packs are missing after each of {ROUNDS_WITHOUT_PROGRESS} rounds"
            + (f"; the last refusal: {self._refusal}" if self._refusal else ""),
            "Check that the machine's clock is right, and do the same again",
        )


def _pause(attempt: int) -> float:
    return PAUSE_SECONDS * 2.0**attempt * random.uniform(0.5, 1.0)


def _code(answer: httpx.Response) -> str:
    found = _CODE.search(answer.text)
    return found[1] if found else ""


def _words(answer: httpx.Response) -> str:
    message = _MESSAGE.search(answer.text)
    parts = [str(answer.status_code), _code(answer), message[1] if message else ""]
    return " ".join(part for part in parts if part)
