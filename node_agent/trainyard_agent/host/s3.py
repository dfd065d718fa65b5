"""The few S3 calls that the agent needs.

Each upload has a SHA-256 that S3 itself checks and that HeadObject gives back.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5, sha256
from html import escape, unescape
from pathlib import Path
from typing import IO
from urllib.parse import quote

from trainyard_agent.host.digests import PART_BYTES, SINGLE_PUT_BYTES, Digest, of_bytes
from trainyard_agent.host.http_errors import Refused, Unreachable
from trainyard_agent.host.http_streams import Writable
from trainyard_agent.host.job_files import open_inside
from trainyard_agent.host.listings import Listed, page_of
from trainyard_agent.host.locations import Location
from trainyard_agent.host.signed_http import SignedHttp
from trainyard_agent.host.slices import Slice

_XML = "http://s3.amazonaws.com/doc/2006-03-01/"


class S3:
    """Thread safe. Every method raises Unreachable (try again) or Refused (for good)."""

    def __init__(self, region: str) -> None:
        self._http = SignedHttp("s3", region)
        self._aws = self._http.endpoint.endswith((".amazonaws.com", ".amazonaws.com.cn"))
        self._empty = sha256(b"").hexdigest()

    def get(self, at: Location) -> bytes | None:
        """The object, or None if there is none."""
        answer = self._call("GET", at)
        return None if answer[0] == 404 else answer[2]

    def get_file(self, at: Location, into: IO[bytes]) -> bool:
        """Write the object into an open file, in blocks; False if there is none.

        Raises also OSError.
        """
        return self._call("GET", at, into=into)[0] != 404

    def list_page(
        self, bucket: str, prefix: str, token: str = ""
    ) -> tuple[list[Listed], str] | None:
        """A page of what is below the prefix, and the next one's token; None without a bucket."""
        asked = {"encoding-type": "url", "list-type": "2", "prefix": prefix}
        if token:
            asked["continuation-token"] = token
        query = "&".join(f"{name}={quote(asked[name], safe='')}" for name in sorted(asked))
        status, _, body = self._call("GET", Location(bucket, ""), query=query)
        return None if status == 404 else page_of(body)

    def get_range(self, at: Location, etag: str, start: int, size: int, into: Writable) -> bool:
        """Write these bytes of the object that has this ETag; False if there is none.

        Raises also OSError, and Refused with status 412 if it has another ETag by now.
        """
        headers = {"If-Match": f'"{etag}"', "Range": f"bytes={start}-{start + size - 1}"}
        return self._call("GET", at, headers=headers, into=into)[0] != 404

    def part_bytes(self, at: Location, number: int) -> int | None:
        """The size of a part, from 1, of an object that came in parts; None where there is none."""
        status, headers, _ = self._call("HEAD", at, query=f"partNumber={number}")
        return int(headers["content-length"]) if status != 404 else None

    def encryption(self, at: Location) -> str:
        """'AES256', 'aws:kms' or the like; '' where S3 does not tell."""
        return self._call("HEAD", at)[1].get("x-amz-server-side-encryption", "")

    def head(self, at: Location) -> tuple[int, str | None] | None:
        """(bytes, SHA-256 checksum in S3's form), or None if there is no such object."""
        status, headers, _ = self._call("HEAD", at, headers={"x-amz-checksum-mode": "ENABLED"})
        if status == 404:
            return None
        return int(headers["content-length"]), headers.get("x-amz-checksum-sha256")

    def put_bytes(self, at: Location, body: bytes) -> Digest:
        known = of_bytes(body)
        self._call(
            "PUT",
            at,
            headers=self._checksum(known.checksum),
            body=body,
            payload_sha256=known.sha256,
        )
        return known

    def copy(self, source: Location, at: Location) -> None:
        """Let S3 copy an object of at most SINGLE_PUT_BYTES to another key."""
        headers = {
            "x-amz-copy-source": quote(f"/{source.bucket}/{source.key}", safe="/~"),
            "x-amz-checksum-algorithm": "SHA256",
        }
        answer = self._call("PUT", at, headers=headers)
        if b"<Error>" in answer[2]:  # S3 may find out after it has answered with 200
            raise Unreachable(f"S3 could not copy: {answer[2][:300].decode(errors='replace')}")

    def delete(self, bucket: str, keys: Sequence[str]) -> None:
        """Delete objects, a thousand to a request; those that are gone already are fine."""
        for start in range(0, len(keys), 1000):
            portion = keys[start : start + 1000]
            listing = "".join(f"<Object><Key>{escape(key)}</Key></Object>" for key in portion)
            body = f"<Delete xmlns='{_XML}'><Quiet>true</Quiet>{listing}</Delete>".encode()
            # S3 asks for this header with this request, whatever else proves the body.
            proof = b64encode(md5(body, usedforsecurity=False).digest()).decode()
            answer = self._call(
                "POST",
                Location(bucket, ""),
                query="delete=",
                headers={"Content-MD5": proof},
                body=body,
                payload_sha256=sha256(body).hexdigest(),
            )
            if b"<Error>" in answer[2]:
                raise Refused(answer[0], answer[2][:300].decode(errors="replace"))

    def listed(self, bucket: str, prefix: str) -> Iterator[str]:
        """The keys that begin so, a thousand to a request."""
        token = ""
        while True:
            asked = {"list-type": "2", "prefix": prefix}
            asked |= {"continuation-token": token} if token else {}
            query = "&".join(f"{name}={quote(asked[name], safe='~')}" for name in sorted(asked))
            text = self._call("GET", Location(bucket, ""), query=query)[2].decode()
            yield from (unescape(key) for key in re.findall(r"<Key>([^<]+)</Key>", text))
            more = re.search(r"<NextContinuationToken>([^<]+)</NextContinuationToken>", text)
            if more is None:
                return
            token = unescape(more.group(1))

    def put_file(
        self,
        at: Location,
        path: Path,
        known: Digest,
        *,
        pause: Callable[[int], None] | None = None,
    ) -> None:
        """Upload a file whose digest is known; S3 refuses it if what arrives is not that."""
        with open_inside(path.parent, path) as stream:
            if known.size > SINGLE_PUT_BYTES:
                self._put_parts(at, stream, known, pause)
                return
            headers = {**self._checksum(known.checksum), "Content-Length": str(known.size)}
            # The file may have grown: send no more than was announced.
            body = Slice(stream, 0, known.size, pause)
            self._call("PUT", at, headers=headers, body=body, payload_sha256=known.sha256)

    def _put_parts(
        self,
        at: Location,
        stream: IO[bytes],
        known: Digest,
        pause: Callable[[int], None] | None,
    ) -> None:
        created = self._call(
            "POST", at, query="uploads=", headers={"x-amz-checksum-algorithm": "SHA256"}
        )
        found = re.search(rb"<UploadId>([^<]+)</UploadId>", created[2])
        if found is None:
            raise Refused(created[0], "CreateMultipartUpload gave no upload id")
        upload = found.group(1).decode()
        parts = []
        try:
            for number, start in enumerate(range(0, known.size, PART_BYTES), start=1):
                parts.append(
                    self._put_part(
                        at,
                        upload,
                        number,
                        Slice(stream, start, min(PART_BYTES, known.size - start), pause),
                    )
                )
            listing = "".join(
                f"<Part><ChecksumSHA256>{checksum}</ChecksumSHA256><ETag>{etag}</ETag>"
                f"<PartNumber>{n}</PartNumber></Part>"
                for n, (etag, checksum) in enumerate(parts, start=1)
            )
            body = f"<CompleteMultipartUpload>{listing}</CompleteMultipartUpload>".encode()
            self._call(
                "POST",
                at,
                query=f"uploadId={upload}",
                body=body,
                payload_sha256=sha256(body).hexdigest(),
            )
        except BaseException:
            self._call("DELETE", at, query=f"uploadId={upload}")
            raise

    def _put_part(self, at: Location, upload: str, number: int, part: Slice) -> tuple[str, str]:
        hashed = sha256()
        while block := part.read():
            hashed.update(block)
        part.seek(0)
        checksum = b64encode(hashed.digest()).decode()
        headers = {**self._checksum(checksum), "Content-Length": str(part.size)}
        query = f"partNumber={number}&uploadId={upload}"
        answer = self._call(
            "PUT", at, query=query, headers=headers, body=part, payload_sha256=hashed.hexdigest()
        )
        return answer[1]["etag"], checksum

    @staticmethod
    def _checksum(checksum: str) -> dict[str, str]:
        # The second header is what SDKs send with the first; some S3 implementations only keep the
        # checksum when it is there.
        return {"x-amz-checksum-sha256": checksum, "x-amz-sdk-checksum-algorithm": "SHA256"}

    def _call(
        self,
        method: str,
        at: Location,
        *,
        query: str = "",
        headers: dict[str, str] | None = None,
        body: bytes | IO[bytes] | Slice = b"",
        payload_sha256: str | None = None,
        into: Writable | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        # Virtual-hosted addresses on AWS (dots in a bucket's name break their certificate), path
        # style anywhere else.
        virtual = self._aws and "." not in at.bucket
        host = f"{at.bucket}.{self._http.endpoint.removeprefix('https://')}" if virtual else None
        path = f"/{at.key}" if virtual else f"/{at.bucket}/{at.key}"
        answer = self._http.request(
            method,
            path,
            query=query,
            host=host,
            headers=headers or {},
            body=body,
            payload_sha256=payload_sha256 or self._empty,
            into=into,
        )
        if answer.status == 404 and method not in ("GET", "HEAD"):
            raise Refused(404, answer.body[:300].decode(errors="replace"))
        return answer.status, dict(answer.headers), answer.body
