"""Health checks: 200 with the status ok, or 503 with the reason."""

from secrets import token_hex

from mainstem.core.errors import MainstemError
from mainstem.heads.amqp_management.call import Answer, Call, Status

OK = {"status": "ok"}
_PROTOCOLS = {
    "amqp": "amqp",
    "amqp091": "amqp",
    "http": "amqp_management",
    "stomp": "stomp",
    "kafka": "kafka",
}
"""The head of each protocol, by the protocol's name."""


def _ready(call: Call) -> object:
    call.check()
    why = call.context.operations.not_ready()
    return OK if why is None else _failed(why)


def _port(call: Call) -> object:
    call.check()
    port = call.path["port"]
    ports = {str(at.port) for at in dict(call.context.addresses).values()}
    if port not in ports:
        return _failed(f"nothing listens at port {port:.20}")
    return {**OK, "port": int(port)}


def _protocol(call: Call) -> object:
    call.check()
    protocol = call.path["protocol"]
    head = _PROTOCOLS.get(protocol.lower().replace("-", "").replace("/", ""))
    if head not in call.context.addresses:
        return _failed(f"{protocol:.50} is off")
    return {**OK, "protocol": protocol}


def _single(call: Call) -> object:
    call.check()
    return {**OK, "reason": "single node cluster"}


def _no_certificates(call: Call) -> object:
    call.check()
    return {**OK, "reason": "there is no TLS yet, so no certificate expires"}


def _alive(call: Call) -> object:
    """Publish a message to a new queue, get it, and delete the queue."""
    queue = f"aliveness-test-{token_hex(8)}"
    place = {"vhost": call.vhost, "queue": queue}
    try:
        call.run("amqp/queues/declare", **place, durable=False)
        try:
            call.run("amqp/publish", vhost=call.vhost, exchange="", routing_key=queue)
            found = call.items("amqp/get", **place, ack_mode="ack")
        finally:
            call.run("amqp/queues/delete", **place)
    except MainstemError as error:
        return _failed(str(error))
    return OK if found else _failed("a message that was published did not arrive")


def _failed(why: str) -> Status:
    return Status(503, {"status": "failed", "reason": why})


ROUTES: dict[str, Answer] = {
    "GET aliveness-test/{vhost}": _alive,
    "GET healthchecks/node": _ready,
    "GET healthchecks/node/{node}": _ready,
    "GET health/checks/alarms": _ready,
    "GET health/checks/local-alarms": _ready,
    "GET health/checks/virtual-hosts": _ready,
    "GET health/checks/is-in-service": _ready,
    "GET health/checks/ready-to-serve-clients": _ready,
    "GET health/checks/node-is-quorum-critical": _single,
    "GET health/checks/node-is-mirror-sync-critical": _single,
    "GET health/checks/certificate-expiration/{within}/{unit}": _no_certificates,
    "GET health/checks/port-listener/{port}": _port,
    "GET health/checks/protocol-listener/{protocol}": _protocol,
}
