"""Registers all operations at the admin port."""

from pathlib import Path

from mainstem.heads.context import HeadContext
from mainstem.node.admin_queries import AdminQueries
from mainstem.node.api.dead_letters import DeadLetterOperations
from mainstem.node.api.delayed_events import DelayedEventOperations
from mainstem.node.api.groups import GroupOperations
from mainstem.node.api.overview import OverviewOperations
from mainstem.node.api.pipelines import PipelineOperations
from mainstem.node.api.queues import QueueOperations
from mainstem.node.api.settings import SettingOperations
from mainstem.node.api.sql import SqlOperations
from mainstem.node.api.topics import TopicOperations
from mainstem.node.config import Config
from mainstem.node.metrics_history import MetricsHistory


def offer_operations(context: HeadContext, queries: AdminQueries, config: Config) -> MetricsHistory:
    """Register the operations; called when the log is open.

    Returns the history of metrics, which the caller must stop.
    """
    history = MetricsHistory(queries.heads, context.now_ms)
    history.start()
    for operations in (
        TopicOperations(context),
        GroupOperations(context),
        QueueOperations(context),
        DeadLetterOperations(context),
        DelayedEventOperations(context),
        SqlOperations(context, config.sql, Path(config.pipelines)),
        SettingOperations(context, config),
        PipelineOperations(context, config),
        OverviewOperations(context, queries, history),
    ):
        context.administration.offer_all(operations)
    return history
