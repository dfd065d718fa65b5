"""The cluster's secret is read without the SDK."""

from __future__ import annotations

from types import SimpleNamespace


def test_the_secrets_signature_is_botocores(scripts: SimpleNamespace) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    environ = {
        "AWS_ACCESS_KEY_ID": "AKID",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
    }
    body, host = b'{"SecretId": "s"}', "secretsmanager.eu-west-1.amazonaws.com"
    mine = scripts.cluster_secret.signed(host, body, "eu-west-1", environ, "20261120T231500Z")
    headers = {
        name: value
        for name, value in mine.items()
        if name not in ("authorization", "x-amz-security-token")
    }
    request = AWSRequest("POST", f"https://{host}/", headers=headers, data=body)
    request.context["timestamp"] = "20261120T231500Z"
    signer = SigV4Auth(Credentials("AKID", "secret", "token"), "secretsmanager", "eu-west-1")
    request.headers["X-Amz-Security-Token"] = "token"
    signature = signer.signature(
        signer.string_to_sign(request, signer.canonical_request(request)), request
    )
    assert mine["authorization"].endswith(f"Signature={signature}")
