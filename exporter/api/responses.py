"""Answers as JSON: plain ones, those that a client may keep and ask about again, and problems.

The rule: an answer's ETag is the digest of its bytes, so it changes exactly when the answer does,
its completeness included; nothing has to be remembered for it. An answer that is older
than what is shown has none: that it is the same as before is no news to anybody.
"""

import hashlib
from http import HTTPStatus

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from exporter.api.answers import Problem

_ETAG_BYTES = 12
"""Enough that two answers of one URL never share it."""


def json_response(
    body: object,
    status: int = 200,
    media_type: str = "application/json",
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a body as JSON that no cache may keep."""
    return Response(
        msgspec.json.encode(body),
        status,
        media_type=media_type,
        headers={"cache-control": "no-store", **(headers or {})},
    )


def etag_response(request: Request, body: object) -> Response:
    """Return a body as JSON with its ETag; 304 without the body to a client that has it."""
    return kept_response(request, msgspec.json.encode(body), "application/json", {})


def kept_response(
    request: Request, content: bytes, media_type: str, also: dict[str, str]
) -> Response:
    """Return bytes with their ETag and more headers; 304 to a client that has them."""
    etag = f'"{hashlib.blake2b(content, digest_size=_ETAG_BYTES).hexdigest()}"'
    # It may be kept, but must be asked about each time.
    headers = {"etag": etag, "cache-control": "no-cache", **also}
    if _is_known(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


def wants_fresh(request: Request) -> bool:
    """Return whether the client will have no answer of before, and rather wait."""
    return "no-cache" in request.headers.get("cache-control", "").lower()


def problem_response(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Return an error as RFC 9457 wants it."""
    title = HTTPStatus(status).phrase
    body = Problem(type="about:blank", title=title, status=status, detail=detail)
    return json_response(body, status, "application/problem+json", headers)


def _is_known(if_none_match: str | None, etag: str) -> bool:
    """Compare weakly, as RFC 9110 says for If-None-Match."""
    if if_none_match is None:
        return False
    known = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return etag in known or "*" in known
