"""What to correct when a ZooKeeper cannot be reached over TLS.

The rule: who refused whom decides, and which settings there are. The words of a refusal decide
nothing: they are OpenSSL's and the server's Java's, and each of their releases may choose others.
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
_HUNG_UP = (ConnectionResetError, BrokenPipeError)


def tls_advice(error: BaseException, *, has_certificate: bool) -> str:
    """Return which settings to correct after a connection over TLS failed; empty if TLS did not.

    `error` is what was raised, or what kazoo made of it. `has_certificate` says whether we show
    one. A server that hangs up without a word is suspected of asking for one when we show none.

    >>> tls_advice(ConnectionRefusedError(), has_certificate=False)
    ''
    """
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return WRONG_NAME if cause.verify_code in _WRONG_NAMES else UNKNOWN_AUTHORITY
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return REFUSED_CERTIFICATE if has_certificate else NO_CERTIFICATE
    hung_up = isinstance(causes[-1], (*_HUNG_UP, ConnectionDropped))
    return NO_CERTIFICATE if hung_up and not has_certificate else ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and what it was raised for, the first of all last."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
