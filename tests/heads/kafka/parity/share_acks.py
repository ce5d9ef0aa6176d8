"""Scenarios of share groups: acknowledgements of acquired records."""

from collections.abc import Iterator

from tests.heads.kafka.parity.compared_server import Said, Side, alike, unlike
from tests.heads.kafka.parity.members import ANN, BOB, LEAVE, set_group, share_beat
from tests.heads.kafka.parity.share_session_client import (
    ACCEPT,
    END,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acks,
    sharing,
)


@alike
def acknowledging_what_was_acquired(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(10)
        yield "accept", ann.acknowledge([(0, 1, [ACCEPT])])
        yield "each its own", ann.acknowledge([(2, 4, [ACCEPT, RELEASE, REJECT])])
        yield "two batches", ann.acknowledge([(5, 5, [RELEASE]), (6, 6, [ACCEPT])])
        yield "with a fetch", ann.fetch([(7, 9, [ACCEPT])], max_records=0)
        yield "released", ann.take(10)


@alike
def releasing_and_counting(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        for _ in range(5):
            yield ann.take(1)
            yield ann.acknowledge([(0, 0, [RELEASE])])
        yield "given up", ann.take(1)
        yield "by another", bob.take(1)


@alike
def rejecting(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(3)
        yield ann.acknowledge([(0, 1, [REJECT])])
        yield ann.acknowledge([(2, 2, [RELEASE])])
        yield ann.take(2)


@alike
def acknowledging_what_is_not_held(side: Side) -> Iterator[Said]:
    with sharing(side, None, ANN, BOB) as (ann, bob):
        yield ann.take(4)
        yield bob.take(2)
        yield "another's", ann.acknowledge([(4, 4, [ACCEPT])])
        yield "partly another's", ann.acknowledge([(3, 4, [ACCEPT])])
        yield "beyond the end", ann.acknowledge([(100, 100, [ACCEPT])])
        yield "released by another", bob.acknowledge([(4, 4, [RELEASE])])
        yield "and then", bob.acknowledge([(4, 4, [ACCEPT])])


@alike
def acknowledging_what_nobody_has_got(side: Side) -> Iterator[Said]:
    with sharing(side, side.single) as (ann,):
        yield ann.take(2, strictly=False)
        for kind in (GAP, ACCEPT, RELEASE, REJECT):
            yield kind, ann.acknowledge([(8, 8, [kind])])
        yield RENEW, ann.acknowledge([(8, 8, [RENEW])], renews=True)
        yield "with what it has", ann.acknowledge([(0, 8, [ACCEPT])])


@unlike("Apache Kafka takes note of a whole batch with its first record; we of what was delivered")
def acknowledging_the_rest_of_a_batch(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(2)
        yield ann.acknowledge([(8, 8, [ACCEPT])])


@alike
def acknowledging_twice(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(6)
        yield ann.acknowledge([(2, 2, [ACCEPT])])
        yield "in the middle", ann.acknowledge([(2, 2, [ACCEPT])])
        yield "otherwise", ann.acknowledge([(2, 2, [RELEASE])])
        yield ann.acknowledge([(3, 3, [REJECT])])
        yield "rejected before", ann.acknowledge([(3, 3, [ACCEPT])])
        yield "partly again", ann.acknowledge([(2, 4, [ACCEPT])])
        yield "the rest", ann.acknowledge([(4, 5, [ACCEPT])])


@unlike("who comes too late is told so: another may have done its work (docs/reference/kafka.md)")
def acknowledging_before_the_start(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(6)
        ann.acknowledge([(0, 2, [ACCEPT])])
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.acknowledge([(1, 4, [ACCEPT])])


@alike
def batches_of_acknowledgements_that_make_no_sense(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(8)
        for name, acks in _NONSENSE.items():
            yield name, ann.acknowledge(acks)
            yield name, "in a fetch", ann.fetch(acks, max_records=1)
        yield "still held", ann.acknowledge([(0, 7, [ACCEPT])])


_NONSENSE: dict[str, Acks] = {
    "overlapping": [(0, 2, [ACCEPT]), (2, 3, [ACCEPT])],
    "the same twice": [(0, 0, [ACCEPT]), (0, 0, [ACCEPT])],
    "backwards": [(3, 1, [ACCEPT])],
    "no types": [(0, 1, [])],
    "too few types": [(0, 2, [ACCEPT, ACCEPT])],
    "too many types": [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
    "type 5": [(0, 0, [5])],
    "type -1": [(0, 0, [-1])],
    "type 127": [(0, 1, [ACCEPT, 127])],
    "overlapping by two": [(0, 2, [ACCEPT]), (1, 3, [ACCEPT])],
    "renewing where that was not said": [(0, 0, [RENEW])],
}


@unlike("librdkafka says it in the order in which records were done; what is refused is done again")
def acknowledging_in_another_order(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(4)
        yield ann.acknowledge([(3, 3, [ACCEPT]), (0, 0, [ACCEPT])])


@alike
def no_batches_of_acknowledgements(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield ann.acknowledge([])


@alike
def gaps(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(5)
        yield ann.acknowledge([(1, 2, [GAP])])
        yield ann.acknowledge([(3, 4, [GAP, ACCEPT])])
        yield "again", ann.acknowledge([(1, 1, [ACCEPT])])
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.take(3)


@alike
def renewing(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(4)
        yield "renewed", ann.acknowledge([(0, 1, [RENEW])], renews=True)
        yield "and accepted", ann.acknowledge([(1, 1, [ACCEPT])], renews=True)
        yield "renewed after", ann.acknowledge([(1, 1, [RENEW])], renews=True)
        yield "in a fetch", ann.renew_by_fetch(0)
        for asked in ("max_records", "max_bytes", "max_wait_ms", "min_bytes"):
            yield "in a fetch for more", asked, ann.renew_by_fetch(0, **{asked: 1})
        yield "in an older version", ann.acknowledge([(1, 1, [RENEW])], version=1)


@alike
def renewing_where_the_group_does_not(side: Side) -> Iterator[Said]:
    group = side.group()
    set_group(side, group, "share.renew.acknowledge.enable", "false")
    with sharing(side, group=group) as (ann,):
        yield ann.take(4)
        yield ann.acknowledge([(0, 1, [RENEW])], renews=True)
        yield ann.acknowledge([(0, 1, [ACCEPT])], renews=True)
        yield ann.renew_by_fetch(2)


@alike
def who_leaves_the_group_and_goes_on(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        yield ann.take(2)
        yield share_beat(side, ann.group, ANN, LEAVE)
        yield ann.acknowledge([(0, 0, [ACCEPT])])
        yield ann.fetch(epoch=END, partitions=())


@alike
def several_partitions_of_which_one_is_wrong(side: Side) -> Iterator[Said]:
    with sharing(side, side.two) as (ann,):
        yield ann.take(10, 0)
        yield ann.take(10, 1)
        yield ann.acknowledge([(2, 3, [ACCEPT])], partition=0)
        yield ann.fetch([(2, 3, [ACCEPT])], partitions=[0], max_records=0)
        yield ann.acknowledge([(0, 9, [ACCEPT])], partition=1)


@alike
def the_version_before(side: Side) -> Iterator[Said]:
    with sharing(side) as (ann,):
        ann.take(4)
        yield ann.fetch([(0, 0, [RELEASE])], max_records=0, version=1)
        yield ann.acknowledge([(1, 1, [ACCEPT])], version=1)
        yield ann.acknowledge([(1, 1, [ACCEPT])], version=1)


@alike
def the_limit_of_deliveries(side: Side) -> Iterator[Said]:
    group = side.group()
    set_group(side, group, "share.delivery.count.limit", "2")
    with sharing(side, group=group) as (ann,):
        for _ in range(2):
            yield ann.take(1)
            yield ann.acknowledge([(0, 0, [RELEASE])])
        yield "given up", ann.take(1)
