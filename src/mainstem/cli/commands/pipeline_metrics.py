"""``mainstem pipeline metrics``: prints or serves the metrics of pipelines."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstem.cli.exit_codes import say
from mainstem.cli.help import Command
from mainstem.cli.pipelines.pipeline_metrics import metrics_page
from mainstem.cli.pipelines.pipeline_options import state_option
from mainstem.pipelines.state.table_state import table_statuses

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@click.command(
    cls=Command,
    epilog="""
    mainstem pipeline metrics
    mainstem pipeline metrics --listen 127.0.0.1:9465
    """,
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Serve them at http://HOST:PORT/metrics until stopped."
)
@state_option
def metrics(listen: str | None, state: Path) -> None:
    """Print the metrics of all pipelines for Prometheus: events, failures, freshness.

    They are read from the status that runs store in --state, so no pipeline needs to be running.
    """
    if listen is None:
        click.echo(metrics_page(table_statuses(state)), nl=False)
        return
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 0xFFFF:
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    _serve(host, int(port), state)


def _serve(host: str, port: int, state: Path) -> None:
    # Imported only here, as most calls print the metrics and serve nothing.
    from uvicorn import Config, Server  # noqa: PLC0415

    from mainstem.heads.transport.server import bind  # noqa: PLC0415

    try:
        listener = bind(host, port)
    except OSError as error:
        raise click.ClickException(f"cannot listen at {host}:{port}: {error}") from None
    port = listener.getsockname()[1]
    say(f"metrics of {state} at http://{host}:{port}/metrics; stop: Ctrl-C")
    server = Server(Config(_app_of(state, host), log_config=None, access_log=False))
    with listener:
        server.run(sockets=[listener])


def _app_of(state: Path, host: str) -> "Starlette":
    from starlette.applications import Starlette  # noqa: PLC0415
    from starlette.middleware import Middleware  # noqa: PLC0415
    from starlette.middleware.trustedhost import TrustedHostMiddleware  # noqa: PLC0415
    from starlette.responses import Response  # noqa: PLC0415
    from starlette.routing import Route  # noqa: PLC0415

    def page(_: "Request") -> Response:
        return Response(metrics_page(table_statuses(state)), media_type=_CONTENT_TYPE)

    # Otherwise a web page elsewhere could read the metrics, by a host name of its own that it
    # points to 127.0.0.1.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[host, "127.0.0.1", "localhost"])
    return Starlette(routes=[Route("/metrics", page)], middleware=[hosts])
