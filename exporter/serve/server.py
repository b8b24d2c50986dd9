"""The exporter's application (routes, request counters and errors), and the server that runs it.

GET and HEAD only; errors are problem+json (RFC 9457). `web.server` decides before that which
clients may ask, and how much.
"""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from exporter.api.endpoints import Handler
from exporter.api.operations import ROOT
from exporter.api.responses import GZIP_LEVEL, problem_response
from exporter.core.metrics import ExporterMetrics
from exporter.serve.pages import Pages
from pipeline.runtime import API_HEADER, API_VERSION
from web.server import UNGUARDED, WebOptions, WebServer

NO_ROUTE = "none"
"""The label under which requests are counted whose path or method is not served."""


def make_app(pages: Pages, metrics: ExporterMetrics) -> Starlette:
    """Return the application: the pages with request counters, and errors as problem+json."""

    def counted(path: str, handler: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            request.state.route = path
            response = await handler(request)
            if path.startswith(ROOT):
                response.headers[API_HEADER] = API_VERSION
            metrics.requests.labels(path, str(response.status_code)).inc()
            return response

        return handle

    async def on_error(request: Request, error: Exception) -> Response:
        status, detail = 500, "an internal error; see the exporter's log"
        headers: dict[str, str] = {}
        if isinstance(error, HTTPException):
            status, detail, headers = error.status_code, error.detail, dict(error.headers or {})
        route = getattr(request.state, "route", NO_ROUTE)
        metrics.requests.labels(route, str(status)).inc()
        return problem_response(status, detail, headers)

    app = Starlette(
        middleware=[Middleware(GZipMiddleware, compresslevel=GZIP_LEVEL)],
        routes=[
            Route(path, counted(path, handler), methods=["GET"])
            for path, handler in pages.routes().items()
        ],
        exception_handlers={HTTPException: on_error, Exception: on_error},
    )
    # A path with an extra slash is answered 404: a redirect would trust the request's Host header.
    app.router.redirect_slashes = False
    app.state.refused = lambda status: metrics.requests.labels(NO_ROUTE, str(status)).inc()
    return app


class HttpServer(WebServer):
    """The server of an application, which counts the requests that reach no page."""

    def __init__(
        self, app: Starlette, host: str, port: int, options: WebOptions = UNGUARDED
    ) -> None:
        super().__init__(app, host, port, options, refused=app.state.refused)
