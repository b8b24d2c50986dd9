"""The exporter's HTTP API, for the commands that show what it knows.

The rule: trouble is one line that names the exporter and what to do. What the client has already is
not sent again (ETag), so looking every second costs next to nothing.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from exporter.ports import DEFAULT_PORT
from pipeline.runtime import KcmError, UnreachableError, UsageError

DEFAULT_URL = f"http://127.0.0.1:{DEFAULT_PORT}"
ANSWER_DEADLINE_S = 30.0
"""Answers take milliseconds; the first what-if of a very large cluster takes seconds."""
_BUSY = 503
_REFUSED = range(400, 500)
_UNCHANGED = 304
_KNOWN_AT_MOST = 64

Json = dict[str, Any]


class ExporterApi:
    """One exporter, asked over HTTP."""

    def __init__(self, url: str) -> None:
        """Take the exporter's address; raises UsageError when it is none."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(f"option --exporter: {url!r} is no address such as {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._known: dict[str, tuple[str, Any]] = {}

    def get(self, path: str, **params: Any) -> Any:
        """Return what the API answers; parameters that are None or empty are left out.

        Raises UsageError for what it refuses, UnreachableError when it does not answer.
        """
        given = {name: value for name, value in params.items() if value not in (None, (), [], "")}
        query = urllib.parse.urlencode(given, doseq=True)
        address = f"{self.url}/api/v1{path}{'?' if query else ''}{query}"
        known = self._known.get(address)
        request = urllib.request.Request(address)  # noqa: S310  # the scheme was checked above
        if known is not None:
            request.add_header("If-None-Match", known[0])
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_DEADLINE_S) as answer:  # noqa: S310  # the same
                return self._keep(address, answer.headers.get("etag"), _decoded(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == _UNCHANGED and known is not None:
                    return known[1]
                raise self._trouble(error) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise UnreachableError(
                f"the exporter at {self.url} does not answer: {why}; start it (kcm up, "
                "kcm export), or name another with --exporter URL"
            ) from None
        except ValueError:
            raise UnreachableError(self._foreign()) from None

    def pages(self, path: str, of: str, *, most: int, **params: Any) -> Iterator[Json]:
        """Yield things page by page, `most` of them at most."""
        after: str | None = None
        while most > 0:
            page = self.get(path, after=after, **params)
            yield from page[of][:most]
            most -= len(page[of])
            after = page["next"]
            if after is None:
                return

    def cluster_names(self) -> list[str]:
        """Return the names of the clusters that are shown."""
        return [str(cluster["name"]) for cluster in self.get("/clusters")["clusters"]]

    def choose(self, cluster: str | None) -> str:
        """Return the cluster that is meant: the one that was named, or the only one there is."""
        if cluster is not None:
            return cluster
        names = self.cluster_names()
        if not names:
            raise UnreachableError(
                f"the exporter at {self.url} shows no cluster yet; kcm watch and kcm stream tell "
                f"why, or {self.url}/readyz"
            )
        if len(names) > 1:
            raise UsageError(f"which cluster? name one with --cluster: {', '.join(names)}")
        return names[0]

    def _keep(self, address: str, etag: str | None, body: Any) -> Any:
        if etag is not None:
            if len(self._known) >= _KNOWN_AT_MOST:
                self._known.clear()
            self._known[address] = (etag, body)
        return body

    def _trouble(self, error: urllib.error.HTTPError) -> KcmError:
        try:
            detail = _decoded(error.read())["detail"]
        except (ValueError, KeyError, TypeError, OSError):
            return UnreachableError(self._foreign())
        if error.code in _REFUSED:
            return UsageError(str(detail))
        return UnreachableError(f"the exporter at {self.url} says: {detail}")

    def _foreign(self) -> str:
        return f"what answers at {self.url} is no exporter of kcm; name it with --exporter URL"


def cluster_path(cluster: str, rest: str = "") -> str:
    """Return the path of a cluster.

    >>> cluster_path("prod", "/events")
    '/clusters/prod/events'
    """
    return f"/clusters/{urllib.parse.quote(cluster, safe='')}{rest}"


def _decoded(body: bytes) -> Any:
    return json.loads(body)
