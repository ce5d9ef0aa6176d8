"""ListTransactions, versions 0 to 2: transactions, filtered by state, producer id, age and name."""

from collections.abc import Iterable

from mainstem.broker.door import MATCH_BUDGET, TopicRegex, TransactionDescription, TransactionPhase
from mainstem.core.errors import InvalidExpression
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.registry import serves
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.messages import producers as messages

_STATES = {*TransactionPhase, "PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"}
"""All transaction states of the protocol; the Prepare states never occur, as a commit or abort is
one step here.
"""


@serves(messages.LIST_TRANSACTIONS, 0, 2)
def answer(asked: Asked, request: messages.ListTransactionsRequest, reply: Reply) -> None:
    """List transactions, filtered by state, producer id, age and transactional id."""
    every: Iterable[TransactionDescription] = asked.service.broker.transactions.every()
    if request.transactional_id_pattern:
        try:
            every = _named(every, request.transactional_id_pattern)
        except InvalidExpression as error:
            reply(messages.ListTransactionsResponse(error_code=code_of(error)))
            return
    found = tuple(
        messages.ListedTransaction(each.id, each.producer_id, each.phase)
        for each in _wanted(every, request, asked.service.now_ms())
    )
    unknown = tuple(each for each in request.state_filters if each not in _STATES)
    reply(
        messages.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)
    )


def _named(every: Iterable[TransactionDescription], pattern: str) -> list[TransactionDescription]:
    """Return the transactions whose transactional id matches the regular expression completely."""
    by_id = {each.id: each for each in every}
    return [by_id[each] for each in TopicRegex(pattern).among(by_id, MATCH_BUDGET)]


def _wanted(
    every: Iterable[TransactionDescription], request: messages.ListTransactionsRequest, now_ms: int
) -> Iterable[TransactionDescription]:
    states, producers = set(request.state_filters), set(request.producer_id_filters)
    for each in every:
        is_old_enough = request.duration_filter < 0 or (
            each.started_ms >= 0 and now_ms - each.started_ms > request.duration_filter
        )
        if (
            is_old_enough
            and (not states or each.phase in states)
            and (not producers or each.producer_id in producers)
        ):
            yield each
