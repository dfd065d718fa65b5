"""Two commands of AWS's command line, as far as scripts on local nodes need them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError


def main() -> int:
    parser = argparse.ArgumentParser(prog="aws")
    services = parser.add_subparsers(dest="service", required=True)
    s3 = services.add_parser("s3").add_subparsers(dest="command", required=True)
    copy = s3.add_parser("cp")
    copy.add_argument("source")
    copy.add_argument("target", type=Path)
    copy.add_argument("--recursive", action="store_true")
    copy.add_argument("--only-show-errors", action="store_true")
    copy.add_argument("--region")
    secrets = services.add_parser("secretsmanager").add_subparsers(dest="command", required=True)
    get = secrets.add_parser("get-secret-value")
    get.add_argument("--secret-id", required=True)
    get.add_argument("--region")
    get.add_argument("--query", choices=["SecretString"], required=True)
    get.add_argument("--output", choices=["text"], required=True)
    given = parser.parse_args()
    try:
        return copied(given) if given.service == "s3" else secret(given)
    except (BotoCoreError, ClientError, OSError) as error:
        print(f"fatal error: {error}", file=sys.stderr)
        return 1


def copied(given: argparse.Namespace) -> int:
    """`aws s3 cp --recursive s3://BUCKET/PREFIX DIRECTORY`, or one object to the output: `-`."""
    bucket, _, prefix = given.source.removeprefix("s3://").partition("/")
    s3 = boto3.client("s3", region_name=given.region)
    if not given.recursive:
        if str(given.target) != "-":
            raise OSError("the local aws copies one object to its output only: s3 cp SOURCE -")
        s3.download_fileobj(bucket, prefix, sys.stdout.buffer)
        return 0
    prefix = prefix if prefix.endswith("/") or not prefix else f"{prefix}/"
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    for entry in (entry for page in pages for entry in page.get("Contents", [])):
        target = given.target / entry["Key"].removeprefix(prefix)
        target.parent.mkdir(parents=True, exist_ok=True)
        s3.download_file(bucket, entry["Key"], str(target))
    return 0


def secret(given: argparse.Namespace) -> int:
    client = boto3.client("secretsmanager", region_name=given.region)
    print(client.get_secret_value(SecretId=given.secret_id)["SecretString"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
