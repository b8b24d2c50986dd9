"""Only properties that are known to hold no secret are shown."""

from __future__ import annotations

from pipeline import harmless


def test_no_property_that_is_shown_is_named_like_a_secret() -> None:
    """The list of what is shown holds no name that a secret could have."""
    words = ("password", "passphrase", "secret", "token", "jaas", "credential", "access.key")
    properties = (*harmless._KAFKA, *harmless._SPARK, *harmless._SPARK_FAMILIES)
    assert not [name for name in properties if any(word in name.lower() for word in words)]
