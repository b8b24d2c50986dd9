"""Serve the runbooks that alerts link to, at /runbooks/NAME.

The rule: they are plain files, made from docs/runbooks beforehand (`python -m docs`), with the live page's
Content-Security-Policy. A name is looked up among the known ones and never used as a path.
"""

from importlib import resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from exporter.api.endpoints import Handler
from exporter.api.responses import kept_response
from exporter.live.page import HEADERS, MEDIA_TYPES

INDEX = "index.html"
STYLE = "style.css"


class RunbookPages:
    """The handlers of the runbooks and of their list."""

    def __init__(self) -> None:
        folder = resources.files("exporter.live") / "runbooks"
        self._files = {
            each.name: each.read_bytes()
            for each in folder.iterdir()
            if each.name.endswith((".html", ".css"))
        }

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {"/runbooks": self.index, "/runbooks/{name}": self.page}

    async def index(self, request: Request) -> Response:
        """List the runbooks."""
        return self._respond(request, INDEX)

    async def page(self, request: Request) -> Response:
        """Serve the runbook of an alert; `.md` may follow its name, as in the repository."""
        name = request.path_params["name"]
        file = STYLE if name == STYLE else f"{name.removesuffix('.md')}.html"
        if file not in self._files:
            raise HTTPException(404, f"there is no runbook {name!r}; /runbooks lists them all")
        return self._respond(request, file)

    def _respond(self, request: Request, file: str) -> Response:
        media_type = MEDIA_TYPES[file.rpartition(".")[2]]
        return kept_response(request, self._files[file], media_type, HEADERS)
