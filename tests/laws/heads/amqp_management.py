"""RabbitMQ's management API for the laws of every head."""

from urllib.parse import urlencode

from hypothesis import strategies as st
from tests.laws.heads.examples import Examples, Law
from tests.laws.heads.http_peers import HTTP, get, http_outcomes
from tests.laws.heads.values import TEXT

from mainstem.heads.amqp_management.app import fields_of as management_fields_of
from mainstem.heads.amqp_management.settings import AmqpManagementSettings

EXAMPLES = Examples(
    settings=AmqpManagementSettings(),
    stream=get("/api/nodes?columns=name", "Accept: */*"),
    ask=get("/api/nodes"),
    # RabbitMQ's status for a missing permission.
    outcomes=http_outcomes(denied=401),
    publishes=False,
    messages=st.dictionaries(TEXT, TEXT, max_size=10),
    there_and_back=lambda message: management_fields_of(urlencode(message).encode()),
    **HTTP,
    login=get("/api/nodes", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "messages that a request gets are settled by that request",
        Law.WAITING: "a request waits for the disk only",
        Law.READING: "no answer of this server alone is long; heads/web has a test of its own",
    },
)
