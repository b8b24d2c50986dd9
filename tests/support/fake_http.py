"""A fake server: urllib's requests are recorded, and answered without a socket."""

from __future__ import annotations

import email.message
import http.client
import io
import urllib.parse
import urllib.request
import urllib.response


class FakeServer(urllib.request.BaseHandler):
    """Answers requests in place of a server: with these codes and bodies, or these errors."""

    handler_order = urllib.request.HTTPHandler.handler_order - 1

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self.left = list(answers)
        self.asked: list[tuple[str, dict[str, str]]] = []

    def http_open(self, request: urllib.request.Request) -> urllib.response.addinfourl:
        """Record the request, and answer."""
        body = request.data.decode() if isinstance(request.data, bytes) else ""
        self.asked.append((request.full_url, dict(urllib.parse.parse_qsl(body))))
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        code, content = answer
        response = urllib.response.addinfourl(
            io.BytesIO(content), email.message.Message(), request.full_url, code
        )
        response.msg = http.client.responses[code]  # type: ignore[attr-defined]  # as urllib's own handler sets it
        return response
