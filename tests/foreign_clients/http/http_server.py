"""Settings of a server for HTTP clients, and the address of a topic's events."""

from mainstem.node.config import Config

CONFIG = Config().listening(http="127.0.0.1:0")
EVENTS = "/topics/{}/events"
