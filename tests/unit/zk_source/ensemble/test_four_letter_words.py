"""Which host and port a four-letter word is sent to."""

from __future__ import annotations

import pytest

from zk_source.ensemble.four_letter_words import host_and_port


@pytest.mark.parametrize(
    ("address", "parts"),
    [("zk1:2181", ("zk1", 2181)), ("10.0.0.1:2281", ("10.0.0.1", 2281)), ("[::1]:1", ("::1", 1))],
)
def test_an_address_is_a_host_and_a_port(address: str, parts: tuple[str, int]) -> None:
    """The brackets of an IPv6 address are not part of the host."""
    assert host_and_port(address) == parts


@pytest.mark.parametrize("address", ["", "zk1", "zk1:", "zk1:client"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    """No server is asked at a guessed port."""
    with pytest.raises(ValueError, match="invalid literal"):
        host_and_port(address)
