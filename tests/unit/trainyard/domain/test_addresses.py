"""Requests that people cause reach public addresses, and no others."""

from __future__ import annotations

import pytest

from trainyard.domain.addresses import address_of, why_not_public


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.0.0.0", "this host"),  # refused
        ("10.0.0.1", "private"),
        ("100.64.0.1", "carrier"),
        ("100.127.255.255", "carrier"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.169.254", "metadata"),
        ("169.254.170.2", "metadata"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.8", "reserved"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "measurements"),
        ("203.0.113.7", "documentation"),
        ("224.0.0.1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::", "internet"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "metadata"),
        ("::ffff:8.8.8.8", "written as IPv6"),
        ("::127.0.0.1", "internet"),
        ("64:ff9b::a9fe:a9fe", "internet"),
        ("fc00::1", "internet"),
        ("fd00:ec2::254", "internet"),
        ("fe80::1%eth0", "internet"),
        ("ff02::1", "internet"),
        ("2001:db8::1", "documentation"),
        ("2001::1", "reserved"),
        ("2002:7f00:1::", "translation"),
    ],
)
def test_an_address_that_is_not_public_says_what_it_is(text: str, why: str) -> None:
    address = address_of(text)
    assert address is not None
    assert why in why_not_public(address)


@pytest.mark.parametrize(
    "text",
    ["8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.167.255.255",
     "2606:4700::1111", "2a00:1450::1"],
)  # fmt: skip
def test_a_public_address_may_be_reached(text: str) -> None:
    address = address_of(text)
    assert address is not None
    assert why_not_public(address) == ""


def test_a_name_is_no_address() -> None:
    assert address_of("example.com") is None
    assert address_of("127.1") is None
