"""The HTTP head: publish events, read, follow and lease them, with any HTTP client."""

from mainstem.heads.head import Head
from mainstem.heads.http.metrics import METRICS
from mainstem.heads.http.settings import HttpSettings

HEAD = Head(
    "http",
    "HTTP",
    HttpSettings(),
    serves="Address for HTTP clients: publish and read events, queues, groups.",
    connect="http://{at}   (GET and POST /topics/TOPIC/events; /openapi.json)",
    examples=(
        "curl http://{at}/topics/orders/events --json '{{\"id\": 1}}'",
        "curl 'http://{at}/topics/orders/events?from=earliest'",
    ),
    auto_port=8080,
    metrics=METRICS,
)
