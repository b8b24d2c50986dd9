"""Serve the live page at /: its files, and what it polls; and at /runbooks what alerts link to.

All are plain files, served unchanged, and may load from and ask this exporter only. A topic or host
with markup in its name stays text: the policy forbids scripts that are not the page's own, styles in the markup,
and making markup from text. The runbooks are made from docs/runbooks beforehand (`python -m tools.docs`). A runbook's
name is looked up among the known ones and never used as a path.
"""

import hashlib
from collections.abc import Mapping
from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from exporter.api.endpoints import Handler
from exporter.api.responses import KeptBody
from exporter.live.page_answers import PATH, PageAnswers

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_INDEX = "index.html"
_RUNBOOK_STYLE = "style.css"
_PARTITION_METRICS = b"<!-- replaced by the link to /metrics/partitions where it is served -->"
_LINK = b'<li><a href="metrics/partitions">Metrics of every partition</a></li>'


class LivePage:
    """The handlers of the page, its `files`, what it polls and the runbooks."""

    def __init__(self, answers: PageAnswers, files: Mapping[str, bytes]) -> None:
        self._answers = answers
        self._files = files
        self._runbooks = {name: _file(name, text) for name, text in _files_in("runbooks").items()}

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path; what is asked for most often is first."""
        files = {f"/page/{name}": _file(name, content) for name, content in self._files.items()}
        return {
            PATH: self._answers.answer,
            "/": files.pop(f"/page/{_INDEX}"),
            **files,
            "/runbooks": self._runbooks[_INDEX],
            "/runbooks/{name}": self.runbook,
        }

    async def runbook(self, request: Request) -> Response:
        """Serve the runbook of an alert; `.md` may follow its name, as in the repository."""
        name = request.path_params["name"]
        file = name if name == _RUNBOOK_STYLE else f"{name.removesuffix('.md')}.html"
        if file not in self._runbooks:
            raise HTTPException(404, f"there is no runbook {name!r}; /runbooks lists them all")
        return await self._runbooks[file](request)


def _file(name: str, content: bytes) -> Handler:
    """Return the handler that serves a file."""
    kept = KeptBody(content, _MEDIA_TYPES[name.rpartition(".")[2]])

    async def serve(request: Request) -> Response:
        return kept.response(request, _HEADERS)

    return serve


def read_files(*, partition_metrics: bool) -> dict[str, bytes]:
    """Return the page's files by name."""
    files = _files_in("static")
    link = _LINK if partition_metrics else b""
    return files | {_INDEX: files[_INDEX].replace(_PARTITION_METRICS, link)}


def version_of(files: Mapping[str, bytes]) -> str:
    """Return a text that changes whenever one of the page's files does."""
    return hashlib.blake2b(b"".join(files.values()), digest_size=8).hexdigest()


def _files_in(folder: str) -> dict[str, bytes]:
    """Return the files of a folder next to this module by name, in order of names."""
    files = (resources.files("exporter.live") / folder).iterdir()
    in_order = sorted(files, key=lambda each: each.name)
    return {each.name: each.read_bytes() for each in in_order if each.is_file()}
