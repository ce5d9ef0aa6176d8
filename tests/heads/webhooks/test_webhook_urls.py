"""Which URLs endpoints may have, and which addresses requests may go to."""

import pytest

from mainstem.core.errors import InvalidSetting
from mainstem.heads.webhooks.addresses import AllowedAddresses, parse_networks
from mainstem.heads.webhooks.urls import check_url


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hooks",
        "http://example.com:8080/a?b=c",
        "http://127.0.0.1:9000/x",
        "https://[2606:4700::1111]/x",
        "https://xn--mnchen-3ya.example/",
        "https://127.0.0.1.example.com/",
    ],
)
def test_http_and_https_urls_are_accepted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com/x",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com#@127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://exa mple.com/",
        "http://example.com/\r\nHost: inside",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://127.0.0.0x1/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http://[::1%25eth0]/",
        "http://[::1/",
        "http://a..b/",
        "http://%31%32%37.0.0.1/",
        "http://" + "a" * 64 + ".com/",
        "http://example.com/" + "a" * 2000,
    ],
)
def test_other_urls_are_refused_with_a_reason(url: str) -> None:
    with pytest.raises(InvalidSetting, match="the URL of an endpoint"):
        check_url(url)


INSIDE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.64.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001::1",
    "2001:db8::1",
    "100::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
    "5f00::1",
    "not an address",
    "",
]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert AllowedAddresses().refusal(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "172.32.0.1"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert AllowedAddresses().refusal(address) == ""


def test_a_setting_allows_networks_and_nothing_beside_them() -> None:
    addresses = AllowedAddresses(parse_networks("127.0.0.0/8, 10.1.0.0/16,::1/128,"))

    allowed = [each for each in INSIDE if not addresses.refusal(each)]

    assert allowed == ["127.0.0.1", "127.255.255.254", "::1"]
    assert not addresses.refusal("10.1.2.3")
    assert addresses.refusal("10.2.0.1")


def test_the_setting_must_be_networks() -> None:
    with pytest.raises(InvalidSetting, match=r"webhooks\.allow"):
        parse_networks("localhost")
    with pytest.raises(InvalidSetting, match="host bits"):
        parse_networks("10.1.2.3/8")
