"""Says what to correct when a ZooKeeper cannot be reached over TLS.

The advice depends on who refused whom, and on which settings exist. It does not depend on
the text of a refusal, which is OpenSSL's or Java's and may change with each of their releases.
"""

import ssl
from collections.abc import Iterator

from kazoo.exceptions import ConnectionDropped

WRONG_NAME = "name the server as its certificate does"
UNKNOWN_AUTHORITY = "its certificate is not trusted: give zk_tls_ca the CA that signed it"
NO_CERTIFICATE = (
    "it may ask for a certificate: give zk_tls_cert and zk_tls_key, or correct the port, "
    "if that is not the one for TLS"
)
REFUSED_CERTIFICATE = (
    "give zk_tls_cert and zk_tls_key what its CA signed, or correct the port, "
    "if that is not the one for TLS"
)
_WRONG_NAMES = {62, 64}
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def tls_advice(error: BaseException, *, has_certificate: bool) -> str:
    """Return which settings to correct after a connection over TLS failed; empty if TLS was not the cause.

    `error` is what was raised, or what kazoo made of it. `has_certificate` says whether we present
    a certificate. If we present none and the server closes the connection without an alert, it
    probably requires one.

    >>> tls_advice(ConnectionRefusedError(), has_certificate=False)
    ''
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return WRONG_NAME if cause.verify_code in _WRONG_NAMES else UNKNOWN_AUTHORITY
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return REFUSED_CERTIFICATE if has_certificate else NO_CERTIFICATE
    is_closed = isinstance(causes[-1], ConnectionResetError | BrokenPipeError | ConnectionDropped)
    return NO_CERTIFICATE if is_closed and not has_certificate else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it, the original one last."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
