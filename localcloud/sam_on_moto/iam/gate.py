"""Hooks Access into every AWS request that moto serves.

It replaces moto's own IAM, which knows one resource: "*".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote
from xml.sax.saxutils import escape, unescape

from sam_on_moto.iam import arns, policies
from sam_on_moto.iam.access import Access, Denied, Principal
from sam_on_moto.iam.signatures import Rejected, SignedRequest, is_presigned, verify_presigned
from sam_on_moto.iam.trust import require_trust
from sam_on_moto.moto_patches.pinned import replace
from sam_on_moto.moto_patches.supported import Operations, refusal

_CREDENTIAL = re.compile(r"Credential=([^/,]+)/\d{8}/([^/]+)/([^/]+)/")
_KEY = re.compile(r"<Key>([^<]+)</Key>")
#: IAM's names where they differ from the API operation's.
_S3_ACTIONS = {
    "ListObjectsV2": "ListBucket", "ListObjects": "ListBucket", "HeadBucket": "ListBucket",
    "HeadObject": "GetObject", "CreateMultipartUpload": "PutObject", "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject", "DeleteObjects": "DeleteObject",
    "GetObjectAttributes": "GetObject", "ListParts": "ListMultipartUploadParts",
}  # fmt: skip
#: DynamoDB's transactions are authorized as the operations they consist of.
_TRANSACTION = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_SERVICES = {"monitoring": "cloudwatch"}
#: The services, S3 aside, that answer in XML.
_IN_XML = ("iam", "sns", "sts")


def install(access: Access, operations: Operations) -> None:
    """Hook moto's request classes, and make STS hand out keys that Access knows.

    Once per process.
    """
    from moto.core.authorization import ActionAuthenticatorMixin as Mixin
    from moto.sts.models import STSBackend

    def normal(self: Any, resource: str = "*") -> None:
        _check_service(access, operations, self)

    def s3(self: Any, bucket_name: str | None = None, key_name: str | None = None) -> None:
        _check_s3(access, operations, self, bucket_name, key_name)

    replace(
        Mixin, "_authenticate_and_authorize_normal_action", normal, parameters=("self", "resource")
    )
    replace(
        Mixin,
        "_authenticate_and_authorize_s3_action",
        s3,
        parameters=("self", "bucket_name", "key_name"),
    )
    replace(
        STSBackend,
        "get_caller_identity",
        lambda self, key, region: _identity(access, key),
        parameters=("self", "access_key_id", "region"),
    )
    assume: Any = replace(
        STSBackend, "assume_role", lambda self, **kwargs: _assume(access, assume, self, kwargs)
    )


def _assume(access: Access, original: Any, backend: Any, arguments: dict[str, Any]) -> Any:
    role = original(backend, **arguments)
    principal = access.issue(arguments["role_arn"], arguments["role_session_name"])
    role.access_key_id, role.secret_access_key, role.session_token = (
        principal.access_key_id, principal.secret_access_key, principal.session_token,
    )  # fmt: skip
    return role


def _identity(access: Access, access_key_id: str) -> tuple[str, str, str]:
    principal = access.principal(access_key_id)
    assert principal, "the request was authorized before it came here"
    return principal.user_id, principal.arn, access.account_id


def _caller(access: Access, response: Any) -> tuple[Principal, str]:
    """The request's principal and the service that it was signed for.

    Raises Denied for keys that were not issued here.
    """
    found = _CREDENTIAL.search(response.headers.get("Authorization") or "")
    principal = access.principal(found[1]) if found else None
    service = _SERVICES.get(found[3], found[3]) if found else "unknown"
    if principal is None:
        raise Denied(
            found[1] if found else "anonymous",
            f"{service}:{response._get_action()}",
            "*",
            "implicit-deny",
        )
    if (
        principal.session_token
        and response.headers.get("X-Amz-Security-Token") != principal.session_token
    ):
        raise Denied(principal.arn, f"{service}:{response._get_action()}", "*", "implicit-deny")
    return principal, service


def _check_service(access: Access, operations: Operations, response: Any) -> None:
    from moto.core.exceptions import AccessDeniedError, JsonRESTError

    try:
        principal, service = _caller(access, response)
        _refuse_what_is_not_done(operations, service, response)
        action = f"{service}:{response._get_action()}"
        if any(forbids(principal, action) for forbids in access.forbids):
            raise Denied(principal.arn, action, "*", "implicit-deny")
        if service == "sts" and response._get_action() == "AssumeRole":
            parameters = _parameters(response)
            role, session = parameters.get("RoleArn", ""), parameters.get("RoleSessionName", "")
            require_trust(access, principal, role, session)
        if principal.owns_all or not access.enforce:
            return
        for demanded, resource, context in _demands(access, response, service):
            access.require(principal, demanded, resource, context)
    except Denied as denied:
        error: Any = JsonRESTError("AccessDeniedException", str(denied))
        if denied.action.partition(":")[0] in _IN_XML:
            user, _, what = (
                str(denied).removeprefix("User: ").partition(" is not authorized to perform: ")
            )
            error = AccessDeniedError(user, what)
        error.code = 403
        raise error from denied


def _refuse_what_is_not_done(operations: Operations, service: str, response: Any) -> None:
    from moto.core.exceptions import JsonRESTError

    reason = refusal(service, response._get_action(), operations)
    if reason is None:
        return
    error = JsonRESTError("NotImplemented", reason)
    if service in _IN_XML:
        error.description = (
            "<ErrorResponse><Error><Code>NotImplemented</Code>"
            f"<Message>{escape(reason)}</Message></Error></ErrorResponse>"
        )
    error.code = 501
    raise error


def _demands(
    access: Access, response: Any, service: str
) -> list[tuple[str, str, policies.Context]]:
    """Every (action, resource, context) the request needs."""
    action = response._get_action()
    parameters = _parameters(response)
    namer = arns.Namer(response.region, response.current_account)
    context = _tags(parameters)
    demands: list[tuple[str, str, policies.Context]] = []
    for index, resource in enumerate(
        arns.resources(access.finders, service, action, parameters, response.path, namer)
    ):
        name = _action(service, action, parameters, index)
        demands.append(
            (
                name,
                resource,
                {
                    **context,
                    **_resource_tags(access, service, resource),
                    **_keys(service, action, parameters, index, access.account_id),
                },
            )
        )
    passed = access.passed_roles.get(service)
    for role in passed(action, parameters) if passed else []:
        demands.append(("iam:PassRole", role, {"iam:passedtoservice": f"{service}.amazonaws.com"}))
    return demands


def _action(service: str, action: str, parameters: Mapping[str, Any], index: int) -> str:
    if service == "dynamodb" and action.startswith("Transact"):
        return f"dynamodb:{_TRANSACTION[next(iter(parameters['TransactItems'][index]))]}"
    if service == "lambda" and action == "Invoke":
        action = "InvokeFunction"
    return f"{service}:{action}"


def _tags(parameters: Mapping[str, Any]) -> dict[str, str | list[str]]:
    tags = parameters.get("Tags") or parameters.get("tags")
    if not isinstance(tags, list):
        return {}
    pairs = {
        str(t.get("Key") or t.get("key")): str(t.get("Value") or t.get("value") or "")
        for t in tags
        if isinstance(t, dict)
    }
    return {
        "aws:tagkeys": list(pairs),
        **{f"aws:requesttag/{key}".lower(): value for key, value in pairs.items()},
    }


def _resource_tags(access: Access, service: str, resource: str) -> dict[str, str]:
    owner = access.resource_tags.get(service) or access.resource_tags.get(
        resource.split(":")[2] if resource.startswith("arn:") else ""
    )
    tags = owner(resource) if owner else {}
    return {
        f"{prefix}{key}".lower(): value
        for key, value in tags.items()
        for prefix in ("aws:ResourceTag/", f"{service}:ResourceTag/", "ssm:resourceTag/")
    }


def _boundary_of(role: str, account: str) -> str:
    from moto.iam.models import iam_backends

    found = next(
        (found for found in iam_backends[account]["aws"].get_roles() if found.name == role), None
    )
    return str((found and found.permissions_boundary_arn) or "")


def _keys(
    service: str, action: str, parameters: Mapping[str, Any], index: int, account: str
) -> dict[str, str | list[str]]:
    if service == "events" and action == "PutEvents":
        entries = parameters.get("Entries", [])
        return {
            "events:source": sorted({e.get("Source", "") for e in entries}),
            "events:detail-type": sorted({e.get("DetailType", "") for e in entries}),
        }
    if service == "dynamodb" and action == "PutItem":
        return _leading_keys(parameters, account)
    if service == "iam" and parameters.get("RoleName"):
        boundary = parameters.get("PermissionsBoundary") or _boundary_of(
            parameters["RoleName"], account
        )
        return {"iam:permissionsboundary": boundary} if boundary else {}
    return {}


def _leading_keys(parameters: Mapping[str, Any], account: str) -> dict[str, str | list[str]]:
    """The partition key of the item that is written; of other operations nobody asks here."""
    from moto.dynamodb.models import dynamodb_backends

    name = str(parameters.get("TableName", "")).rsplit("/", maxsplit=1)[-1]
    for backend in dynamodb_backends[account].values():
        if (table := backend.tables.get(name)) is not None:
            value = parameters.get("Item", {}).get(table.hash_key_attr, {})
            return {"dynamodb:leadingkeys": [str(part) for part in value.values()]}
    return {}


def _parameters(response: Any) -> dict[str, Any]:
    """The request as parameters, by whatever protocol it came.

    Newer services of moto have parsed them already.
    """
    parsed = getattr(response, "params", None) or response.body
    if isinstance(parsed, dict):
        return parsed
    try:
        parsed = json.loads(response.body) if response.body else {}
    except (ValueError, TypeError):
        parsed = None
    if isinstance(parsed, dict) and parsed:
        return parsed
    return {
        key: value[0] if isinstance(value, list) else value
        for key, value in (response.querystring or {}).items()
    }


def _check_s3(
    access: Access, operations: Operations, response: Any, bucket: str | None, key: str | None
) -> None:
    from moto.s3.exceptions import S3AccessDeniedError, S3ClientError

    try:
        principal = _signer_of_url(access, response) or _caller(access, response)[0]
        if reason := refusal("s3", response._get_action(), operations):
            raise S3ClientError("NotImplemented", reason)
        action = _S3_ACTIONS.get(response._get_action(), response._get_action())
        # AWS answers for each key of DeleteObjects by itself; here one that is denied refuses all.
        several = _keys_to_delete(response) if action == "DeleteObject" and not key else [key]
        name = "ListAllMyBuckets" if action == "ListBuckets" else action
        for one in several:
            resource = f"arn:aws:s3:::{bucket}/{one}" if one else f"arn:aws:s3:::{bucket or '*'}"
            access.require(principal, f"s3:{name}", resource, _s3_context(response))
        if source := response.headers.get("x-amz-copy-source"):
            copied = unquote(source.partition("?")[0]).lstrip("/")
            access.require(principal, "s3:GetObject", f"arn:aws:s3:::{copied}")
    except Denied as denied:
        raise S3AccessDeniedError from denied


def _keys_to_delete(response: Any) -> list[str]:
    """Of a request that names its objects in its body; all of the bucket where it names none."""
    body = response.body
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    return [unescape(key) for key in _KEY.findall(text)] or ["*"]


def _signer_of_url(access: Access, response: Any) -> Principal | None:
    """Who signed the URL; None where the request itself is signed."""
    from moto.s3.exceptions import S3ClientError

    url = response.normalized_request.raw_url
    if not is_presigned(url):
        return None
    headers = {name.lower(): value for name, value in response.headers.items()}
    request = SignedRequest(response.normalized_request.method, url, headers, b"")
    try:
        return verify_presigned(request, access.principal, now=datetime.now(timezone.utc))
    except Rejected as rejected:
        wrong = "does not match" in str(rejected)
        code = "SignatureDoesNotMatch" if wrong else "AccessDenied"
        raise S3ClientError(code, str(rejected)) from rejected


def _s3_context(response: Any) -> dict[str, str | list[str]]:
    prefix = (response.querystring or {}).get("prefix")
    return {"s3:prefix": prefix[0] if isinstance(prefix, list) else prefix} if prefix else {}
