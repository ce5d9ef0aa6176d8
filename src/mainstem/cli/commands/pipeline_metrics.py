"""``mainstem pipeline metrics``: prints or serves the metrics of pipelines."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click

from mainstem.cli.exit_codes import say
from mainstem.cli.help import Command
from mainstem.cli.pipelines.pipeline_metrics import metrics_page
from mainstem.cli.pipelines.pipeline_options import state_option
from mainstem.pipelines.state.table_state import table_statuses

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

    They are read from the status that runs keep in --state: no pipeline needs to run.
    """
    if listen is None:
        click.echo(metrics_page(table_statuses(state)), nl=False)
        return
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 0xFFFF:
        raise click.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    try:
        server = ThreadingHTTPServer((host, int(port)), _page_of(state))
    except OSError as error:
        raise click.ClickException(f"cannot listen at {listen}: {error}") from None
    with server:
        say(f"metrics of {state} at http://{host}:{server.server_port}/metrics; stop: Ctrl-C")
        server.serve_forever()


def _page_of(state: Path) -> type[BaseHTTPRequestHandler]:
    class Page(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the metrics are at /metrics")
                return
            body = metrics_page(table_statuses(state)).encode()
            self.send_response(200)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log no requests."""

    return Page
