"""Where a webhook may lead."""

from __future__ import annotations

import pytest

from trainyard.domain import webhook_urls


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/", "https"),
        ("ftp://example.com/", "https"),
        ("example.com", "no host"),
        ("https://", "no host"),
        ("https://example.com:99999/", "no URL"),
        ("https://example.com:0/", "no host"),
        ("https://[::1/", "no URL"),
        ("https://user:word@example.com/", "user"),
        ("https://example.com/#part", "after #"),
        ("https://exa mple.com/", "characters"),
        ("https://example.com/\r\nx: y", "characters"),
        ("https://bücher.example/", "characters"),
        ("https://example.com\\@10.0.0.1/", "user"),
        ("https://a.example\\b/", "no host"),
        ("https://localhost/", "internet"),
        ("https://intranet/", "internet"),
        ("https://printer.local/", "internet"),
        ("https://metadata.google.internal/", "internet"),
        ("https://127.1/", "internet"),
        ("https://2130706433/", "internet"),
        ("https://127.0.0.0x1/", "internet"),
        ("https://0x7f.0.0.0X1/", "internet"),
        ("https://127.0.0.0x1./", "internet"),
        ("https://127.0.0.1/", "loopback"),
        ("https://169.254.169.254/latest/meta-data", "metadata"),
        ("https://[::ffff:10.0.0.1]/", "private"),
        ("https://[fd00:ec2::254]/", "internet"),
    ],
)
def test_a_url_that_is_refused_says_why(url: str, why: str) -> None:
    assert why in webhook_urls.refusal_of(url, loopback=False)


def test_a_receiver_of_this_machine_is_for_the_local_cloud_alone() -> None:
    for url in ("http://127.0.0.1:8000/x", "http://localhost:8000", "https://[::1]:8443/"):
        assert webhook_urls.refusal_of(url, loopback=False)
        assert not webhook_urls.refusal_of(url, loopback=True)
    for url in ("http://example.com/", "https://10.0.0.1/", "ftp://127.0.0.1/"):
        assert webhook_urls.refusal_of(url, loopback=True)


def test_a_public_receiver_may_have_a_port_a_path_and_a_query() -> None:
    for url in ("https://example.com", "https://a-b.example.com:8443/x?y=z", "https://8.8.8.8/"):
        assert not webhook_urls.refusal_of(url, loopback=False)
