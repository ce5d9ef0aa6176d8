"""Webhooks: events delivered to URLs, and received at URLs, by HTTP POST."""

from mainstem.heads.head import Head, starts_in
from mainstem.heads.webhooks.metrics import METRICS
from mainstem.heads.webhooks.settings import WebhooksSettings

HEAD = Head(
    name="webhooks",
    title="Webhooks",
    settings=WebhooksSettings(),
    start=starts_in("mainstem.heads.webhooks.adapter.head"),
    serves="Address that receives webhooks; also delivers events to endpoints.",
    connect="http://{at}/hooks/SOURCE   (and mainstem webhook add delivers events)",
    metrics=METRICS,
)
