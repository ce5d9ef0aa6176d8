"""Finds a server's admin HTTP address from the broker config `mainstem.admin.address`."""

from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource

from mainstem.core.errors import MainstemError, Unsupported
from mainstem.remote.admin import Admin
from mainstem.remote.cluster import Cluster, host_and_port

ADDRESS, RUN = "mainstem.admin.address", "mainstem.run.id"
_ASK_S = 2.0
_MOST_BYTES = 2000
_EVERYWHERE = ("0.0.0.0", "::")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class AdminPort(msgspec.Struct, frozen=True):
    """A server's admin HTTP address, and the id of the server's current run.

    A server with another run id at this address is another one.
    """

    host: str
    port: int
    run_id: str

    @property
    def address(self) -> str:
        """The admin HTTP address, as host:port."""
        return f"{self.host}:{self.port}"


def admin_port(administration: Admin) -> AdminPort:
    """Return the server's admin address; raises Unsupported if it has none."""
    cluster = administration.cluster
    settings = _broker_settings(administration)
    if RUN not in settings:
        raise Unsupported(
            f"{cluster.address} is no mainstem server, or an older one, and cannot be asked about "
            "its queues and exchanges; Kafka's own kafka-share-groups.sh --describe tells "
            "something of queues"
        )
    if ADDRESS not in settings:
        raise Unsupported(
            f"the server at {cluster.address} has no admin port, where queues and exchanges "
            "are: start it with --admin HOST:PORT"
        )
    host, _, port = settings[ADDRESS].rpartition(":")
    reached = host_and_port(cluster.address.split(",")[0])[0]
    if host in _EVERYWHERE:
        host = reached
    elif host in _LOOPBACK and reached not in _LOOPBACK:
        raise Unsupported(
            f"the admin port of {cluster.address}, where queues and exchanges are, can be "
            f"reached on its own machine only ({settings[ADDRESS]}): ask there"
        )
    return AdminPort(host, int(port), settings[RUN])


def why_not_ready(cluster: Cluster) -> str | None:
    """Return why /readyz says the server is not ready; None if it is, or does not respond."""
    asking = Cluster(cluster.address, timeout_s=_ASK_S, settings=cluster.settings)
    try:
        port = admin_port(Admin(asking))
        connection = HTTPConnection(port.host, port.port, timeout=_ASK_S)
        try:
            connection.request("GET", "/readyz", headers={"Host": "localhost"})
            answer = connection.getresponse()
            said = answer.read(_MOST_BYTES).decode("utf-8", "replace").strip()
        finally:
            connection.close()
    except (MainstemError, KafkaException, OSError, HTTPException):
        return None
    return said if answer.status == HTTPStatus.SERVICE_UNAVAILABLE else None


def _broker_settings(administration: Admin) -> dict[str, str]:
    cluster = administration.cluster
    try:
        brokers = administration.client.list_topics(timeout=cluster.timeout_s).brokers
    except KafkaException as error:
        raise cluster.refusal(error) from None
    for number in brokers:
        resource = ConfigResource(ConfigResource.Type.BROKER, str(number))
        asked = administration.client.describe_configs(
            [resource], request_timeout=cluster.timeout_s
        )
        (future,) = asked.values()
        entries = cluster.result(future)
        return {name: it.value for name, it in entries.items() if it.value is not None}
    raise MainstemError(f"{cluster.address} names no broker")
