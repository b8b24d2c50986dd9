"""A client of the exporter's HTTP API, for the commands that show its data.

The rule: a problem is one line that names the exporter and what to do, also when an answer lacks a
field that is read. An answer that the client already has is not sent again (ETag), so polling every
second costs almost nothing.
"""

import http.client
import ipaddress
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import check_cluster_name
from controller_model.records.decoding import DECODING_ERRORS
from kcm.queries.http_config import OPTION, http_handlers
from pipeline.runtime import (
    API_HEADER,
    API_VERSION,
    EXPORTER_PORT,
    KcmError,
    UnreachableError,
    UsageError,
)

DEFAULT_URL = f"http://127.0.0.1:{EXPORTER_PORT}"
ANSWER_TIMEOUT_S = 30.0
"""Most answers take milliseconds; at 200,000 partitions the first what-if takes seconds."""
PAGE = 1000
"""Items in one answer of a list: the most that the exporter gives of any."""
_REFUSED = range(400, 500)
_KNOWN_AT_MOST = 64

Json = dict[str, Any]


class ApiAnswer(dict[str, Any]):
    """An object in an answer; a missing field is reported as the exporter's fault, not as kcm's."""

    def __init__(self, found: Json, url: str) -> None:
        super().__init__(found)
        self.url = url

    def __missing__(self, key: str) -> NoReturn:
        raise UnreachableError(
            f"the exporter at {self.url} answers without {key!r}: it is another release than "
            "this command, or not a kcm exporter"
        )


class ExporterApi:
    """A client of one exporter."""

    def __init__(
        self, url: str, http_config: Path | None = None, *, within_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        """Take the exporter's address, its client configuration and its time to answer; raises UsageError."""
        try:
            parts = urllib.parse.urlsplit(url)
            usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"option --exporter: {url!r} is not a URL such as {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._within_s = within_s
        self._known: dict[str, tuple[str, Any]] = {}
        # No proxy is used for this machine itself.
        direct = [urllib.request.ProxyHandler({})] if _is_here(parts.hostname or "") else []
        self._opener = urllib.request.build_opener(*direct, *http_handlers(http_config, self.url))
        self._by_proxy = _proxy_text(parts)

    def get(self, path: str, **params: Any) -> Any:
        """Return the API's answer; parameters that are None or empty are left out.

        Raises UsageError for a request that it refuses, UnreachableError when it does not answer.
        """
        given = {name: value for name, value in params.items() if value not in (None, (), [], "")}
        query = urllib.parse.urlencode(given, doseq=True)
        address = f"{self.url}/api/{API_VERSION}{path}{'?' if query else ''}{query}"
        known = self._known.get(address)
        request = urllib.request.Request(address)  # noqa: S310  # the scheme was checked above
        # A command needs the current state, so it takes no answer from a cache.
        request.add_header("Cache-Control", "no-cache")
        if known is not None:
            request.add_header("If-None-Match", known[0])
        try:
            with self.open(request) as answer:
                if answer.headers.get(API_HEADER) != API_VERSION:
                    raise UnreachableError(self._foreign())
                return self._keep(address, answer.headers.get("etag"), self._read(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == HTTPStatus.NOT_MODIFIED and known is not None:
                    return known[1]
                raise self._trouble(error) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise UnreachableError(
                f"the exporter at {self.url} does not answer: {why}{self._by_proxy}; start it "
                "(kcm up, kcm export), or name another with --exporter URL"
            ) from None
        except DECODING_ERRORS:
            raise UnreachableError(self._foreign()) from None

    def open(self, request: str | urllib.request.Request) -> Any:
        """Return the open answer to a request to the exporter; raises OSError."""
        return self._opener.open(request, timeout=self._within_s)

    def pages(
        self, path: str, of: str, *, most: int, after: str | None = None, **params: Any
    ) -> Iterator[Json]:
        """Yield items page by page, `most` of them at most, from the first or after a place."""
        while most > 0:
            page = self.get(path, after=after, limit=min(most, PAGE), **params)
            yield from page[of][:most]
            most -= len(page[of])
            after = page["next"]
            if after is None:
                return

    def cluster_names(self) -> list[str]:
        """Return the names of the clusters that are shown."""
        return [str(cluster["name"]) for cluster in self.get("/clusters")["clusters"]]

    def choose(self, cluster: str | None) -> str:
        """Return the chosen cluster: the one that was named, or the only one there is."""
        if cluster is not None:
            try:
                return check_cluster_name(cluster)
            except ModelError as error:
                raise UsageError(f"option --cluster: {error}") from None
        names = self.cluster_names()
        if not names:
            raise UnreachableError(
                f"the exporter at {self.url} shows no cluster yet; see the logs of kcm watch and "
                f"kcm stream, or {self.url}/readyz"
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
            detail = json.loads(error.read())["detail"]
        except (*DECODING_ERRORS, KeyError, TypeError, OSError):
            return UnreachableError(self._foreign())
        if error.code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
            path = urllib.parse.urlsplit(error.url).path
            return UnreachableError(
                f"the exporter at {self.url} serves no {path}: it is another release than this "
                "command"
            )
        if error.code == HTTPStatus.UNAUTHORIZED:
            return UsageError(
                f"the exporter at {self.url} asks for a user and a password: name a file with them "
                f"with {OPTION}"
            )
        if error.code in _REFUSED:
            return UsageError(str(detail))
        return UnreachableError(f"the exporter at {self.url} says: {detail}")

    def _read(self, body: bytes) -> ApiAnswer:
        decoded = json.loads(body, object_hook=lambda found: ApiAnswer(found, self.url))
        if not isinstance(decoded, ApiAnswer):
            raise ValueError(decoded)  # noqa: TRY004  # the answer is a value, and a wrong one
        return decoded

    def _foreign(self) -> str:
        return (
            f"what answers at {self.url} is not a kcm exporter{self._by_proxy}; name it with "
            "--exporter URL"
        )


def cluster_path(cluster: str, rest: str = "") -> str:
    """Return the path of a cluster.

    >>> cluster_path("prod", "/events")
    '/clusters/prod/events'
    """
    return f"/clusters/{urllib.parse.quote(cluster, safe='')}{rest}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _proxy_text(parts: urllib.parse.SplitResult) -> str:
    """Return the proxy through which an exporter is asked, for the line that says it does not answer."""
    host = parts.hostname or ""
    is_direct = _is_here(host) or urllib.request.proxy_bypass(host)
    if is_direct or parts.scheme not in urllib.request.getproxies():
        return ""
    return f" (asked through the proxy of {parts.scheme}_proxy)"
