"""FSx and EC2's subnets over HTTP: signatures, policies, and AWS's forms of answer and error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from typing import Any

from sam_on_moto.iam.access import Denied, Principal
from sam_on_moto.iam.policies import Context
from sam_on_moto.iam.signatures import Rejected, SignedRequest, verify
from sam_on_moto.wire.messages import Request, Response
from trainyard_local.fsx import subnets
from trainyard_local.fsx.errors import FsxError, NotDone
from trainyard_local.fsx.service import Fsx
from trainyard_local.local_cloud import LocalCloud

TARGET = "AWSSimbaAPIService_v20180301."
Demand = tuple[str, str, Context]
_ROLES = "role/aws-service-role"


def install(cloud: LocalCloud) -> Fsx:
    """Answer what is signed for FSx, and for EC2. Call once for a server."""
    fsx = Fsx(cloud)
    cloud.services["fsx"] = partial(answer, fsx)
    cloud.services["ec2"] = partial(answer_ec2, cloud)
    cloud.access.resource_tags["fsx"] = fsx.tags_of
    cloud.on_shutdown.append(fsx.close)
    return fsx


def answer(fsx: Fsx, request: Request) -> Response:
    """One request that is signed for FSx."""
    operation = request.headers.get("x-amz-target", "").removeprefix(TARGET)
    try:
        principal = _principal(fsx.cloud, request, "fsx")
        params = json.loads(request.body or b"{}")
        for action, resource, context in demands(fsx, operation, params):
            fsx.cloud.access.require(principal, action, resource, context)
        return _json(200, fsx.answer(operation, params))
    except (Rejected, Denied) as refused:
        return _error(400, "AccessDeniedException", str(refused))
    except NotDone as refused:
        return _error(501, "NotImplemented", str(refused))
    except FsxError as refused:
        return _error(400, type(refused).__name__, str(refused))


def _principal(cloud: LocalCloud, request: Request, service: str) -> Principal:
    query = f"?{request.query}" if request.query else ""
    url = f"{cloud.endpoint}{request.raw_path}{query}"
    return verify(
        SignedRequest(request.method, url, request.headers, request.body),
        cloud.access.principal,
        region=cloud.region,
        service=service,
        now=datetime.now(timezone.utc),
    )


def demands(fsx: Fsx, operation: str, params: dict[str, Any]) -> Iterator[Demand]:
    """Every right that the request needs, for each of its resources."""
    action, name = f"fsx:{operation}", _namer(fsx.cloud)
    sent: Context = {
        f"aws:requesttag/{tag['Key']}".lower(): tag["Value"] for tag in params.get("Tags") or []
    }
    there = [name(f"file-system/{params['FileSystemId']}")] if params.get("FileSystemId") else []
    if link := fsx.associations.get(params.get("AssociationId", "")):
        there = [link.arn]
    if params.get("ResourceARN"):
        there = [params["ResourceARN"]]
    made = {
        "CreateFileSystem": "file-system/*",
        "CreateDataRepositoryAssociation": "association/*",
        "CreateDataRepositoryTask": "task/*",
    }.get(operation)
    for arn in there:
        yield action, arn, {**sent, **_tags(fsx, arn)}
    if made is not None:
        yield action, name(made), sent
        if sent:
            yield "fsx:TagResource", name(made), sent
    elif not there:
        yield action, "*", sent
    yield from _roles(fsx.cloud, operation, params)


def _roles(cloud: LocalCloud, operation: str, params: dict[str, Any]) -> Iterator[Demand]:
    """FSx makes its own roles with its caller's rights."""
    base = f"arn:aws:iam::{cloud.account_id}:{_ROLES}"
    if operation == "CreateFileSystem":
        service = "fsx.amazonaws.com"
        arn = f"{base}/{service}/AWSServiceRoleForAmazonFSx"
        yield "iam:CreateServiceLinkedRole", arn, {"iam:awsservicename": service}
    if operation == "CreateDataRepositoryAssociation":
        service = "s3.data-source.lustre.fsx.amazonaws.com"
        arn = f"{base}/{service}/AWSServiceRoleForFSxS3Access_{params.get('FileSystemId')}"
        for action in ("CreateServiceLinkedRole", "AttachRolePolicy", "PutRolePolicy"):
            yield f"iam:{action}", arn, {"iam:awsservicename": service}


def _namer(cloud: LocalCloud) -> Callable[[str], str]:
    return lambda rest: f"arn:aws:fsx:{cloud.region}:{cloud.account_id}:{rest}"


def _tags(fsx: Fsx, arn: str) -> Context:
    return {f"aws:resourcetag/{key}".lower(): value for key, value in fsx.tags_of(arn).items()}


def answer_ec2(cloud: LocalCloud, request: Request) -> Response:
    """One request that is signed for EC2: DescribeSubnets by ids, and nothing else."""
    ids = subnets.wanted(request.body)
    try:
        principal = _principal(cloud, request, "ec2")
        if ids is None:
            text = "the local cloud does of ec2: DescribeSubnets with ids or the filter subnet-id"
            return _xml(501, _ec2_error("NotImplemented", text))
        cloud.access.require(principal, "ec2:DescribeSubnets", "*")
    except (Rejected, Denied) as refused:
        return _xml(403, _ec2_error("UnauthorizedOperation", str(refused)))
    return _xml(200, subnets.document(ids))


def _ec2_error(code: str, message: str) -> str:
    inner = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return f"<Response><Errors>{inner}</Errors><RequestID>local</RequestID></Response>"


def _xml(status: int, text: str) -> Response:
    return Response(status, [("Content-Type", "text/xml")], text.encode())


def _error(status: int, kind: str, message: str) -> Response:
    return _json(status, {"__type": kind, "Message": message, "message": message})


def _json(status: int, body: Any) -> Response:
    headers = [("Content-Type", "application/x-amz-json-1.1")]
    return Response(status, headers, json.dumps(body).encode())
