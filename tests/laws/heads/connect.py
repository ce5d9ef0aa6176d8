"""Kafka Connect for the laws of every head."""

from hypothesis import strategies as st
from tests.laws.heads.examples import Examples, Law
from tests.laws.heads.http_peers import HTTP, get, http_outcomes

from mainstem.heads.connect.configs import config_of as connect_config_of
from mainstem.heads.connect.configs import settings_of as connect_settings_of
from mainstem.heads.connect.settings import ConnectSettings


def _captured_by(tables: str) -> str:
    """Return the table that a configuration with this list captures, as it is shown again."""
    settings, _ = connect_settings_of("shop", {"table.include.list": tables})
    return connect_config_of(settings)["table.include.list"]


EXAMPLES = Examples(
    settings=ConnectSettings(),
    stream=get("/connector-plugins", "Accept: */*"),
    ask=get("/connector-plugins"),
    outcomes=http_outcomes(),
    publishes=False,
    messages=st.from_regex(r"[a-z]{1,9}\\\.[a-z]{1,9}", fullmatch=True),
    there_and_back=lambda message: _captured_by(message).replace(".", "\\."),
    **HTTP,
    login=get("/connector-plugins", "Authorization: Basic YW5uOm5v"),
    not_applicable={
        Law.SETTLING: "connectors are defined, and nothing is delivered",
        Law.WAITING: "a request waits for the disk and for databases only",
        Law.READING: "no answer of this server alone is long; heads/web has a test of its own",
    },
)
