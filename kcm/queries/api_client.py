"""A client of the exporter's HTTP API, for the commands that show its data.

A problem is one line that names the exporter and what to do, also when an answer lacks a
field that is read. An answer that the client already has is not sent again (ETag), so polling every
second costs almost nothing.
"""

import ipaddress
import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn

import httpx

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import check_cluster_name
from controller_model.records.decoding import DECODING_ERRORS
from kcm.queries.http_config import OPTION, http_client
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
_MAX_KNOWN = 64
_PORTS = {None, *range(1, 1 << 16)}

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
            parts = httpx.URL(url)
            usable = parts.scheme in {"http", "https"} and parts.host and parts.port in _PORTS
        except httpx.InvalidURL:
            usable = False
        if not usable:
            raise UsageError(f"option --exporter: {url!r} is not a URL such as {DEFAULT_URL}")
        self.url = url.rstrip("/")
        self._known: dict[str, tuple[str, Any]] = {}
        proxy = _proxy_of(parts.scheme, parts.host)
        self._by_proxy = f" (asked through the proxy of {parts.scheme}_proxy)" if proxy else ""
        self._client = http_client(self.url, http_config, timeout_s=within_s, proxy=proxy)

    def get(self, path: str, **params: Any) -> Any:
        """Return the API's answer; parameters that are None or empty are left out.

        Raises UsageError for a request that it refuses, UnreachableError when it does not answer.
        """
        given = {name: value for name, value in params.items() if value not in (None, (), [], "")}
        address = f"{self.url}/api/{API_VERSION}{path}"
        if given:
            address += f"?{urllib.parse.urlencode(given, doseq=True)}"
        etag, known = self._known.get(address, ("", None))
        # A command needs the current state, so it takes no answer from a cache.
        headers = {"Cache-Control": "no-cache"} | ({"If-None-Match": etag} if etag else {})
        try:
            answer = self.request(address, headers)
        except httpx.HTTPError as error:
            raise UnreachableError(
                f"the exporter at {self.url} does not answer: {error}{self._by_proxy}; start it "
                "(kcm up, kcm export), or name another with --exporter URL"
            ) from None
        if answer.status_code == HTTPStatus.NOT_MODIFIED and etag:
            return known
        if not answer.is_success:
            raise self._error_of(answer)
        decoded = None
        if answer.headers.get(API_HEADER) == API_VERSION:
            decoded = _decoded(answer, lambda found: ApiAnswer(found, self.url))
        if not isinstance(decoded, ApiAnswer):
            raise self._not_an_exporter()
        if "etag" in answer.headers:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[address] = (answer.headers["etag"], decoded)
        return decoded

    def request(self, address: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """Return the exporter's answer, whatever its status is; raises httpx.HTTPError."""
        return self._client.get(address, headers=headers)

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

    def _error_of(self, answer: httpx.Response) -> KcmError:
        """Return the error for an answer that is not a success."""
        body = _decoded(answer)
        if not isinstance(body, dict) or "detail" not in body:
            return self._not_an_exporter()
        detail, status = body["detail"], answer.status_code
        if status == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
            return UnreachableError(
                f"the exporter at {self.url} serves no {answer.url.path}: it is another release than "
                "this command"
            )
        if status == HTTPStatus.UNAUTHORIZED:
            return UsageError(
                f"the exporter at {self.url} asks for a user and a password: name a file with them "
                f"with {OPTION}"
            )
        if answer.is_client_error:
            return UsageError(str(detail))
        return UnreachableError(f"the exporter at {self.url} says: {detail}")

    def _not_an_exporter(self) -> UnreachableError:
        return UnreachableError(
            f"what answers at {self.url} is not a kcm exporter{self._by_proxy}; name it with "
            "--exporter URL"
        )


def cluster_path(cluster: str, rest: str = "") -> str:
    """Return the path of a cluster.

    >>> cluster_path("prod", "/events")
    '/clusters/prod/events'
    """
    return f"/clusters/{urllib.parse.quote(cluster, safe='')}{rest}"


def _decoded(answer: httpx.Response, as_object: Callable[[Json], Any] | None = None) -> Any:
    """Return an answer's JSON; None where it is none."""
    try:
        return json.loads(answer.content, object_hook=as_object)
    except DECODING_ERRORS:
        return None


def _proxy_of(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host; None: none, and none for this machine itself."""
    try:
        is_here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    if is_here or urllib.request.proxy_bypass(host):
        return None
    proxy = urllib.request.getproxies().get(scheme)
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
