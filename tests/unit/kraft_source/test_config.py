"""The settings of a KRaft cluster's watcher: each bad value is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft_source.config import KraftSettings
from kraft_source.wire.messages import ControllerEndpoint
from pipeline.runtime import UsageError
from pipeline.settings import describe, load

SECRET = "hunter2"  # noqa: S105  # none of ours

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def test_settings_become_endpoints_and_access(tmp_path: Path) -> None:
    """An address of IPv6 is taken out of its brackets; secrets are not shown."""
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    settings = load(
        KraftSettings,
        controllers="c1:9093, [2001:db8::7]:9094",
        controller_cluster_id="A9x9EGFDRHWELj7ddzAMwQ",
        controller_security_protocol="SASL_SSL",
        controller_tls_ca=str(ca),
        controller_sasl_user="kcm",
        controller_sasl_password=SECRET,
    )
    assert settings.endpoints == [
        ControllerEndpoint("c1", 9093),
        ControllerEndpoint("2001:db8::7", 9094),
    ]
    access = settings.access()
    assert access.cluster_id == "A9x9EGFDRHWELj7ddzAMwQ"
    assert access.tls is not None
    assert access.tls.ca == ca
    assert access.credentials is not None
    assert (access.credentials.mechanism, access.credentials.password) == (
        "SCRAM-SHA-512",
        SECRET,
    )
    assert SECRET not in str(describe(settings)) + repr(settings)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"controllers": "c1"}, "controllers: 'c1' is not host:port"),
        ({"controller_cluster_id": "prod"}, "must be a cluster id of 22 characters"),
        ({"controller_tls_ca": "/ca"}, "controller_tls_ca: needs controller_security_protocol SSL"),
        (
            {"controller_security_protocol": "SSL", "controller_tls_ca": "/none"},
            "controller_tls_ca: there is no file /none",
        ),
        ({"controller_sasl_user": "kcm"}, "needs controller_security_protocol SASL_SSL"),
        (
            {"controller_security_protocol": "SASL_PLAINTEXT"},
            "SASL SCRAM-SHA-512 needs a user name and a password",
        ),
        (
            {
                "controller_security_protocol": "SASL_PLAINTEXT",
                "controller_sasl_mechanism": "OAUTHBEARER",
            },
            "OAUTHBEARER needs a file with the token",
        ),
    ],
)
def test_a_bad_value_is_one_line(options: dict[str, Any], line: str) -> None:
    """It names the setting and what would do."""
    with pytest.raises(UsageError) as caught:
        load(KraftSettings, **options)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
