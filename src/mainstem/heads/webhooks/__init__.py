"""Webhooks: events delivered to URLs, and received at URLs, by HTTP POST."""

from mainstem.heads.head import Head
from mainstem.heads.webhooks.metrics import METRICS
from mainstem.heads.webhooks.settings import WebhooksSettings

HEAD = Head(
    "webhooks",
    "Webhooks",
    WebhooksSettings(),
    serves="Address that receives webhooks; also delivers events to endpoints.",
    connect="http://{at}/hooks/SOURCE   (and mainstem webhook add delivers events)",
    extra="webhooks",
    metrics=METRICS,
)
