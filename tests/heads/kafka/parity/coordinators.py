"""Scenarios of FindCoordinator and ListTransactions."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import (
    GROUPS,
    TRANSACTIONS,
    Said,
    Side,
    alike,
    unlike,
    word,
)
from tests.heads.kafka.parity.transactional_producer import Producer, settled

from mainstem.kafka_protocol.messages.membership import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from mainstem.kafka_protocol.messages.producers import (
    LIST_TRANSACTIONS,
    ListTransactionsRequest,
    ListTransactionsResponse,
)

_SEVERAL_KEYS = 4
"""The first version of FindCoordinator that has a list of keys."""
_SHARE = "a:AAAAAAAAAAAAAAAAAAAAAQ:0"
"""Group, topic id, and partition."""


def _found(side: Side, kind: int, *keys: str, version: int = 6) -> Said:
    body = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
    if version < _SEVERAL_KEYS:
        body = FindCoordinatorRequest(keys[0], kind)
    answer = side.ask(FIND_COORDINATOR, body, FindCoordinatorResponse, version=version)
    if version < _SEVERAL_KEYS:
        return word(answer.error_code), answer.node_id >= 0
    return [(it.key, word(it.error_code), it.node_id >= 0) for it in answer.coordinators]


@alike
def finding_who_keeps_what(side: Side) -> Iterator[Said]:
    for kind in (GROUPS, TRANSACTIONS):
        for version in (1, 2, 3, 4, 5, 6):
            yield kind, version, _found(side, kind, "a", version=version)
            yield kind, version, "an empty name", _found(side, kind, "", version=version)
        yield "several", _found(side, kind, "a", "b", "a")
        yield "none", _found(side, kind)
    for version in (1, 3, 4, 6):
        for kind in (3, -1):
            yield "no such kind", kind, version, _found(side, kind, "a", version=version)


@alike
def finding_who_keeps_shares(side: Side) -> Iterator[Said]:
    for version in (1, 3, 4, 5, 6):
        yield version, _found(side, 2, "a", version=version)
    for version in (1, 3, 4, 5):
        yield version, _found(side, 2, _SHARE, version=version)


@unlike("only brokers look for who keeps shares, and here whoever leads the partition does")
def finding_who_keeps_a_share(side: Side) -> Iterator[Said]:
    yield _found(side, 2, _SHARE)


def _listed(
    side: Side,
    whose: Producer,
    states: tuple[str, ...] = (),
    ids: tuple[int, ...] = (),
    *,
    for_ms: int = -1,
    pattern: str | None = None,
    version: int = 2,
) -> Said:
    body = ListTransactionsRequest(states, ids, for_ms, pattern)

    def ask() -> tuple[int, ListTransactionsResponse]:
        answer = side.ask(LIST_TRANSACTIONS, body, ListTransactionsResponse, version=version)
        return answer.error_code, answer

    answer = settled(ask)
    found = [it for it in answer.transaction_states if it.transactional_id == whose.name]
    return (
        word(answer.error_code),
        sorted(answer.unknown_state_filters),
        [(it.producer_id == whose.id, it.transaction_state) for it in found],
    )


@alike
def listing_transactions(side: Side) -> Iterator[Said]:
    ann = Producer(side, "listed")
    yield "nobody", _listed(side, ann)
    ann.init()
    for _ in range(2):
        yield "all", [_listed(side, ann, version=each) for each in (0, 1, 2)]
        for state in ("Empty", "Ongoing", "empty", "PrepareCommit", "Dead", "", "Nothing"):
            yield state, _listed(side, ann, (state,))
        yield "one known", _listed(side, ann, ("Nothing", "Empty"))
        yield "its id", _listed(side, ann, (), (ann.id,))
        yield "another id", _listed(side, ann, (), (ann.id + 1,))
        yield "several ids", _listed(side, ann, (), (ann.id, -1))
        yield "less than nothing", _listed(side, ann, for_ms=-2)
        for pattern in ("", ".*", "listed", "listed.*", ".*one", "nothing"):
            yield pattern, _listed(side, ann, pattern=pattern)
        for pattern in ("(", "*"):
            yield pattern, _listed(side, ann, pattern=pattern)
        ann.add((side.written.name, 0))
    yield "for long", _listed(side, ann, for_ms=100_000_000)
    ann.end()
    ann.described()
    yield "ended", _listed(side, ann), _listed(side, ann, ("CompleteCommit",))
    yield "ended, for long", _listed(side, ann, for_ms=100_000_000)


@unlike("what has not begun has not taken long")
def listing_long_transactions(side: Side) -> Iterator[Said]:
    ann = Producer(side, "for long")
    ann.init()
    yield _listed(side, ann, for_ms=100_000_000)
