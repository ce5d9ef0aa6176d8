"""Transactions by the older and by the newer rules, request by request, over a real socket."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.heads.kafka.raw_peers import Peer, produce, served
from tests.heads.kafka.transactional_producer import TransactionalProducer

from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.messages.connection import (
    API_VERSIONS,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from mainstem.kafka_protocol.messages.producers import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducersTopic,
)
from mainstem.kafka_protocol.messages.transactions import (
    INIT_PRODUCER_ID,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

OLDER, NEWER = 4, 5
"""Versions of EndTxn and TxnOffsetCommit."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A client of a server that has a topic ``t``."""
    path: Path = tmp_path_factory.mktemp("served")
    with served(path) as address, Peer(address) as found:
        produce(found, "t", bytes(build([Event(value=b"v")], now_ms=1)))
        yield found


def test_the_newer_rules_are_announced_as_agreed_on(peer: Peer) -> None:
    earlier, found = (
        peer.ask(API_VERSIONS, version, ApiVersionsRequest("me", "1"), ApiVersionsResponse)
        for version in (3, 4)
    )

    for answer in (earlier, found):
        (agreed,) = answer.finalized_features
        assert (agreed.name, agreed.max_version_level) == ("transaction.version", 2)
        assert answer.finalized_features_epoch >= 0
    (supported,) = found.supported_features
    assert (supported.min_version, supported.max_version) == (0, 2)
    # Clients of version 3 cannot read a feature that begins at 0.
    assert not earlier.supported_features


def test_by_the_newer_rules_writing_joins_and_each_end_gives_another_epoch(peer: Peer) -> None:
    producer = TransactionalProducer(peer)
    epochs = []

    for committed in (True, False, True):
        assert producer.write(12).error_code == 0
        ended = producer.end(NEWER, committed=committed)
        assert (ended.error_code, ended.producer_id) == (0, producer.producer_id)
        epochs.append(ended.producer_epoch)
        producer.epoch = ended.producer_epoch

    assert epochs == [1, 2, 3]


def test_by_the_older_rules_the_epoch_stays(peer: Peer) -> None:
    producer = TransactionalProducer(peer)

    for sequence in (0, 1):
        assert producer.add() is Code.NONE
        assert producer.write(11, sequence).error_code == 0
        ended = producer.end(OLDER)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, -1, -1)


def test_a_transactional_id_goes_from_one_set_of_rules_to_the_other(peer: Peer) -> None:
    older = TransactionalProducer(peer)
    older.add()
    older.write(11)
    older.end(OLDER)

    newer = TransactionalProducer(peer, older.transactional_id)
    newer.write(12)
    ended = newer.end(NEWER)
    last = TransactionalProducer(peer, older.transactional_id)
    last.add()

    assert last.write(11).error_code == 0
    assert last.end(OLDER).error_code == 0
    assert older.epoch < newer.epoch < ended.producer_epoch < last.epoch


def test_an_end_asked_for_again_is_answered_again(peer: Peer) -> None:
    producer = TransactionalProducer(peer)
    producer.write(12)

    ended = producer.end(NEWER)
    again = producer.end(NEWER)
    other = producer.end(NEWER, committed=False)

    assert again == ended
    assert Code(other.error_code) is Code.INVALID_TXN_STATE


def test_a_batch_that_comes_after_the_end_is_refused(peer: Peer) -> None:
    producer = TransactionalProducer(peer)
    producer.write(12)
    producer.end(NEWER)

    late = producer.write(12, sequence=1)

    assert Code(late.error_code) is Code.INVALID_PRODUCER_EPOCH


def test_an_end_without_a_beginning_is_refused_unless_it_asks_for_an_epoch(peer: Peer) -> None:
    producer = TransactionalProducer(peer)

    assert Code(producer.end(NEWER).error_code) is Code.INVALID_TXN_STATE
    assert Code(producer.end(OLDER, committed=False).error_code) is Code.INVALID_TXN_STATE
    assert producer.end(NEWER, committed=False).producer_epoch == 1


def write(producer: TransactionalProducer, version: int) -> Code:
    return Code(producer.write(version).error_code)


@pytest.mark.parametrize(
    ("ask", "versions"),
    [(write, (10, 11, 12)), (TransactionalProducer.commit_offset, (3, 4, 5))],
    ids=["write to a partition", "commit an offset of a group"],
)
@pytest.mark.parametrize(
    ("rules", "expected"),
    [(0, Code.INVALID_TXN_STATE), (1, Code.TRANSACTION_ABORTABLE), (2, Code.NONE)],
)
def test_only_the_newer_rules_let_a_transaction_take_in_what_was_not_added(
    peer: Peer,
    ask: Callable[[TransactionalProducer, int], Code],
    versions: tuple[int, ...],
    rules: int,
    expected: Code,
) -> None:
    assert ask(TransactionalProducer(peer), versions[rules]) is expected


@pytest.mark.parametrize("version", range(5))
def test_by_the_older_rules_a_group_is_added_first(peer: Peer, version: int) -> None:
    producer = TransactionalProducer(peer)

    assert producer.add_group(version) is Code.NONE
    assert producer.commit_offset(version) is Code.NONE
    assert producer.end(version).error_code == 0


def test_whoever_was_fenced_is_told_so_in_terms_that_its_version_has(peer: Peer) -> None:
    fenced = TransactionalProducer(peer)
    TransactionalProducer(peer, fenced.transactional_id)
    before, now = Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED

    assert [fenced.add(version) for version in (1, 2, 3)] == [before, now, now]
    assert [fenced.add_group(version) for version in (1, 2, 4)] == [before, now, now]
    assert [fenced.end(version).error_code for version in (1, 2, 4, 5)] == [before, now, now, now]
    assert [fenced.write(version).error_code for version in (9, 12)] == [before, before]
    assert [fenced.commit_offset(version) for version in (3, 5)] == [before, before]
    who = (fenced.producer_id, fenced.epoch)
    begun = [fenced.init(version, *who).error_code for version in (3, 4, 5)]
    assert begun == [before, now, now]


def test_a_producer_that_nobody_knows_is_told_so(peer: Peer) -> None:
    producer = TransactionalProducer(peer)
    producer.producer_id += 1_000_000

    assert Code(producer.end(NEWER).error_code) is Code.INVALID_PRODUCER_ID_MAPPING
    assert Code(producer.write(12).error_code) is Code.INVALID_PRODUCER_ID_MAPPING


def test_transactions_are_listed_by_state_producer_and_age(peer: Peer) -> None:
    ended, ongoing = TransactionalProducer(peer), TransactionalProducer(peer)
    for producer in (ended, ongoing):
        producer.write(12)
    ended.end(NEWER)
    mine = {ended.transactional_id: "ended", ongoing.transactional_id: "ongoing"}

    def listed(**filters: object) -> set[str]:
        wish = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
        answer = peer.ask(LIST_TRANSACTIONS, 1, wish, ListTransactionsResponse)
        return {mine.get(each.transactional_id, "") for each in answer.transaction_states} - {""}

    assert listed() == {"ended", "ongoing"}
    assert listed(state_filters=("Ongoing", "PrepareCommit")) == {"ongoing"}
    assert listed(state_filters=("Unheard",)) == set()
    assert listed(producer_id_filters=(ended.producer_id,)) == {"ended"}
    assert listed(duration_filter=3_600_000) == set()


def test_states_that_do_not_exist_are_named(peer: Peer) -> None:
    wish = ListTransactionsRequest(state_filters=("Ongoing", "Dead", "Unheard"))

    answer = peer.ask(LIST_TRANSACTIONS, 0, wish, ListTransactionsResponse)

    assert answer.unknown_state_filters == ("Unheard",)


def test_what_does_not_exist_is_described_as_missing(peer: Peer) -> None:
    described = peer.ask(
        DESCRIBE_TRANSACTIONS,
        0,
        DescribeTransactionsRequest(("none",)),
        DescribeTransactionsResponse,
    )
    topics = (ProducersTopic("none", (0,)), ProducersTopic("t", (99,)))
    producers = peer.ask(
        DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics), DescribeProducersResponse
    )

    code = described.transaction_states[0].error_code
    assert Code(code) is Code.TRANSACTIONAL_ID_NOT_FOUND
    codes = [Code(each.partitions[0].error_code) for each in producers.topics]
    assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 2


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (None, {"named.a", "named.b"}),
        ("", {"named.a", "named.b"}),
        (r"named\.[ab]", {"named.a", "named.b"}),
        (r".*\.b", {"named.b"}),
        ("named", set()),
        ("(n|a|m|e|d|.)*b", {"named.b"}),
    ],
)
def test_transactions_are_listed_by_a_pattern_of_their_whole_ids(
    peer: Peer, pattern: str | None, found: set[str]
) -> None:
    for name in ("named.a", "named.b"):
        TransactionalProducer(peer, name)

    wish = ListTransactionsRequest(transactional_id_pattern=pattern)
    answer = peer.ask(LIST_TRANSACTIONS, 2, wish, ListTransactionsResponse)

    assert answer.error_code == 0
    ids = {each.transactional_id for each in answer.transaction_states}
    assert {each for each in ids if each.startswith("named.")} == found


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=a)", "((a{1000}){1000}){1000}", "a" * 1001])
def test_a_pattern_that_cannot_be_followed_is_refused(peer: Peer, pattern: str) -> None:
    wish = ListTransactionsRequest(transactional_id_pattern=pattern)

    answer = peer.ask(LIST_TRANSACTIONS, 2, wish, ListTransactionsResponse)

    assert Code(answer.error_code) is Code.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"enable_2pc": True}, Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keep_prepared_txn": True}, Code.UNSUPPORTED_VERSION),
        (
            {"enable_2pc": True, "keep_prepared_txn": True},
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        ({}, Code.NONE),
    ],
)
def test_two_phase_commit_is_refused_and_all_else_is_as_before(
    peer: Peer, wish: dict[str, bool], code: Code
) -> None:
    request = InitProducerIdRequest(
        "two phases",
        1000,
        -1,
        -1,
        wish.get("enable_2pc", False),
        wish.get("keep_prepared_txn", False),
    )

    answer = peer.ask(INIT_PRODUCER_ID, 6, request, InitProducerIdResponse)

    assert Code(answer.error_code) is code
    assert (answer.producer_id >= 0) == (code is Code.NONE)
    assert answer.ongoing_txn_producer_id == -1
