"""The common runtime of all heads that speak HTTP: a head hands over an ASGI app.

A head's ``start`` makes its app, of Starlette's routes or by hand, and serves it::

    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route, Router

    from mainstem.heads.web.body import read_body
    from mainstem.heads.web.limits import WebLimits
    from mainstem.heads.web.login import user_of
    from mainstem.heads.web.origin import Origins, with_cors
    from mainstem.heads.web.server import WebServer, serve_app

    async def start(context, settings, listener) -> WebServer:
        async def publish(request: Request) -> Response:
            door = context.door(user_of(context.auth, request.scope))
            body = await read_body(request.scope, request.receive, settings.max_body_bytes)
            ...
            return JSONResponse({"offset": offset})

        origins = Origins(allowed=frozenset(settings.origins))
        app = with_cors(Router([Route("/topics/{topic}", publish, methods=["POST"])]), origins)
        return serve_app(context, app, listener, WebLimits(), origins, websockets=True)

What is done for the app:

- Connections, HTTP and WebSocket framing, keep-alive, pipelining, limits (``limits.py``), and the
  end of a connection: uvicorn's protocols in the node's event loop (``connection.py``).
- The Host and Origin headers are checked (``origin.py``), before the app is called.
- Errors: raise any ``MainstemError``, Starlette's ``HTTPException``, or ``problem.Refused(status,
  reason)``; the answer is a problem+json with the class of failure. Anything else is logged with
  its traceback, and answered with 500. Use ``Router``, not ``Starlette``: it lets errors through.
- Users: ``login.peer_of(scope)`` is the connection's peer; ``login.user_of(auth, scope)`` checks
  HTTP Basic. ``context.door(peer)`` returns the broker's interface, which checks permissions.
- Bodies: ``body.read_body(scope, receive, limit)`` also unpacks gzip, up to the limit. A body of
  more than ``WebLimits.max_body_bytes`` is refused: before the app is called if its length is
  known, else when it exceeds the limit.
- Stopping: idle connections are closed, no new request is taken, earlier ones are waited for. A
  request that waits for anything but the disk must end when the server drains: use
  ``context.park`` or ``context.wait_with``. WebSockets get ``websocket.disconnect`` (1012).
  Requests that still run in ``close`` are cancelled.
- A peer that disconnects: ``receive()`` returns ``http.disconnect``. A peer that closes only its
  own side is still answered, within ``connection.HALF_CLOSED_S``.
- A slow peer: ``await send(...)`` waits while 64 KiB are unread; after ``WebLimits.stalled_s`` the
  connection is closed. An app with a stream per peer should end slow streams itself, and tell the
  client.

An app runs in the event loop: calls that take long or block must be made through
``starlette.concurrency.run_in_threadpool``. uvicorn and Starlette are slow to import, so nothing
here is imported before a head starts, except ``problem.py`` and ``login.py``, which need neither.
"""
