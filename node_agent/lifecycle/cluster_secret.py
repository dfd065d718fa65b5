"""Reads the cluster's key from Secrets Manager with the standard library, or by the AWS CLI.

The AWS CLI serves where credentials are the instance's.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import time
import urllib.parse
from collections.abc import Mapping

from node import StepFailed, command, say

TRIES = 5


def read_secret(name: str, region: str, environ: Mapping[str, str]) -> str:
    if not environ.get("AWS_ACCESS_KEY_ID"):
        argv = [
            "aws",
            "secretsmanager",
            "get-secret-value",
            "--region",
            region,
            "--secret-id",
            name,
            "--query",
            "SecretString",
            "--output",
            "text",
        ]
        return command(argv, timeout=120).strip()
    problem = ""
    for attempt in range(TRIES):
        try:
            status, answer = ask(name, region, environ)
        except OSError as error:
            status, problem = 0, str(error)
        else:
            if status == 200:
                return str(json.loads(answer)["SecretString"])
            problem = f"HTTP {status}: {answer.decode(errors='replace')[:300]}"
        if status in range(400, 500) and b"Throttl" not in problem.encode():
            break
        say(f"Secrets Manager, try {attempt + 1} of {TRIES}: {problem}")
        time.sleep(min(0.2 * 2**attempt, 5))
    raise StepFailed(
        f"secret '{name}' cannot be read ({problem}); the node's role needs "
        "secretsmanager:GetSecretValue on it"
    )


def ask(name: str, region: str, environ: Mapping[str, str]) -> tuple[int, bytes]:
    endpoint = environ.get("AWS_ENDPOINT_URL") or f"https://secretsmanager.{region}.amazonaws.com"
    url = urllib.parse.urlsplit(endpoint)
    body = json.dumps({"SecretId": name}).encode()
    headers = signed(
        url.netloc, body, region, environ, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    )
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.netloc, timeout=10)
    try:
        connection.request("POST", "/", body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def signed(
    host: str, body: bytes, region: str, environ: Mapping[str, str], at: str
) -> dict[str, str]:
    """Headers of a Signature Version 4 request (IAM guide, 'Create a signed AWS API request')."""
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "host": host,
        "x-amz-date": at,
        "x-amz-target": "secretsmanager.GetSecretValue",
    }
    if environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = environ["AWS_SESSION_TOKEN"]
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        [
            "POST",
            "/",
            "",
            *(f"{key}:{headers[key]}" for key in sorted(headers)),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{at[:8]}/{region}/secretsmanager/aws4_request"
    to_sign = "\n".join(
        ["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest()]
    )
    key = f"AWS4{environ['AWS_SECRET_ACCESS_KEY']}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={environ['AWS_ACCESS_KEY_ID']}/{scope}, "
        f"SignedHeaders={names}, Signature={key.hex()}"
    )
    return headers
