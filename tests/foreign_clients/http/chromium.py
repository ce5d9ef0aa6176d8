"""Chromium (Debian's package), unmodified and headless, driven by its own DevTools protocol.

How this works: a page is opened at an address, which gives it an origin, and JavaScript runs in it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.processes import wait_until
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium")
marks = [
    pytest.mark.peers,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: apt-get install chromium"),
]
"""Of every module that uses it."""
PATIENCE_S = 60
_FLAGS = (
    "--headless=new",
    # As root it does not start otherwise; it only sees what the tests serve.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-port=0",
)


class Browser:
    """A running browser."""

    def __init__(self, devtools: ClientConnection) -> None:
        self._devtools = devtools
        self._numbers = count(1)

    def page(self, address: str) -> "Page":
        """Open a page at an address, and wait until it is there."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        found = self.call("Page.navigate", session, url=address)
        assert "errorText" not in found, found
        page = Page(self, session)
        wait_until(lambda: page.run("document.readyState") == "complete", f"{address} did not load")
        return page

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        number = next(self._numbers)
        asked = {"id": number, "method": method, "params": parameters}
        self._devtools.send(json.dumps(asked | ({"sessionId": session} if session else {})))
        while True:
            said = json.loads(self._devtools.recv(PATIENCE_S))
            if said.get("id") == number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result


class Page:
    """A page, in which JavaScript runs."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session

    def run(self, script: str) -> Any:
        """Return what an expression gives, once it does if it is a promise."""
        found = self._browser.call(
            "Runtime.evaluate",
            self._session,
            expression=script,
            awaitPromise=True,
            returnByValue=True,
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")


@contextlib.contextmanager
def browser(path: Path) -> Iterator[Browser]:
    """Run a browser whose files are in a directory."""
    with (path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(CHROMIUM), *_FLAGS, f"--user-data-dir={path}", "about:blank"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        at = path / "DevToolsActivePort"
        wait_until(
            lambda: at.exists() and len(at.read_text().splitlines()) == 2,
            (path / "log").read_text,
        )
        port, where = at.read_text().splitlines()
        with connect(f"ws://127.0.0.1:{port}{where}", proxy=None, max_size=None) as devtools:
            yield Browser(devtools)
    finally:
        # It is several processes, in a session of their own.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>shop</title>")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def site() -> Iterator[str]:
    """Serve an empty page; gives its origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
