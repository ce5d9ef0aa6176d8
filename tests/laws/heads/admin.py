"""Admin for the laws of every head."""

from urllib.parse import urlencode

from hypothesis import strategies as st
from starlette.datastructures import QueryParams
from tests.laws.heads.examples import Examples, Law
from tests.laws.heads.http_peers import HTTP, get, http_outcomes
from tests.laws.heads.values import TEXT

from mainstem.heads import HEADS
from mainstem.heads.admin.query import fields_of


def _there_and_back(message: dict[str, str]) -> dict[str, str]:
    return fields_of(QueryParams(urlencode(message)).multi_items())


EXAMPLES = Examples(
    settings=next(it.settings for it in HEADS if it.name == "admin"),
    stream=get("/livez", "Accept: */*"),
    ask=get("/connections"),
    outcomes=http_outcomes(),
    publishes=False,
    messages=st.dictionaries(TEXT, TEXT.filter(lambda it: "\ufffd" not in it), max_size=10),
    there_and_back=_there_and_back,
    **HTTP,
    login=get("/connections", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "the admin port shows what queues hold, and hands out no deliveries",
        Law.WAITING: "no page waits for anything but being made",
        Law.READING: "no page that a peer can make long; heads/web has a test of its own",
    },
)
