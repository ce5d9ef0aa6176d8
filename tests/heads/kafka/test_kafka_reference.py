"""The page that tells which requests are served in which versions, and what is not."""

from pathlib import Path

from mainstem.broker.groups.configs import KNOWN
from mainstem.heads.kafka.adapter.apis import SERVED
from mainstem.kafka_protocol.apis import APIS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "kafka.md"

WHY = {
    0: "versions 0 to 2 carry older forms of records, which Kafka 4 refuses, too",
    22: "two-phase commit by an outside coordinator (version 6) is refused by code",
    24: "later versions are spoken between brokers",
    29: "there are no rules yet: refused by code (`SECURITY_DISABLED`)",
    30: "the same",
    31: "the same",
}
"""What is left out of requests that are served."""

HEAD = """# The Kafka protocol

Which requests `mainstem serve` answers, in which versions: what ApiVersions announces. Whatever is
not listed is not announced; a client that asks for it all the same is disconnected, and the log of
the server says why.

| key | request | versions | left out |
|---|---|---|---|
"""
TAIL = """
## Rules that depend on the version
- Transactions: the feature `transaction.version` is agreed on at 2. Clients that use it (EndTxn 5,
  Produce 12, TxnOffsetCommit 5: the Java client since 4.0) get another epoch with the end of every
  transaction, and whatever they write joins it. Clients of older versions add partitions and groups
  first, and keep their epoch. Both may use the same transactional id, one after the other.
- Error codes that came later (`PRODUCER_FENCED`, `TRANSACTION_ABORTABLE`) are answered in versions
  that know them, and the ones from before in all others.
- Topics are named by id from Produce 13, Fetch 13, OffsetCommit 10 and OffsetFetch 10 on: a topic
  that was deleted and made again under the same name is another one.
- InitProducerId 6: a client that asks for two-phase commit is answered
  `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`, as by a Kafka that does not allow it; one that wants to
  keep a prepared transaction `UNSUPPORTED_VERSION`.
- Fetch sessions: since Fetch 7 a consumer names its partitions once. There are 1,000 sessions of
  50,000 partitions together; one that was not used for two minutes makes room for another, and
  none outlives its connection. Consumers beyond that name all partitions in every fetch. These and
  other limits are [settings](settings.md).
- Share groups: a session belongs to one member and ends with its connection; there are 10,000 of
  500,000 partitions together. The feature `share.version` is not announced: no client asks for it.
  A fetch does not wait for more than the first event (`fetch.min.bytes` over 1 is as 1).
  A group without members is there as long as it has a position in some topic; with Apache Kafka it
  stays until it is deleted. Who acknowledges what another has settled meanwhile is told so
  (`INVALID_RECORD_STATE`), which Apache Kafka does not always do.
- OffsetCommit keeps offsets below 0, and OffsetFetch tells them, as with Apache Kafka: KafkaJS
  commits -1 and -2 to reset a group. For lag and backlog such a group has not committed there, and
  its consumers begin where their own settings say (`auto.offset.reset`).
- OffsetFetch with `require_stable` answers `UNSTABLE_OFFSET_COMMIT` for a cursor that a transaction
  is going to move; OffsetDelete answers `GROUP_SUBSCRIBED_TO_TOPIC` for topics that the members of
  a live group read.
- Classic groups, also those of Kafka Connect: members of a stable generation stay over a restart,
  as with Apache Kafka. They go on with their member ids and generation; each has its session
  timeout to come back. A generation that nobody had been assigned in yet is begun anew.
- Consumer groups (`group.protocol=consumer`, KIP-848): the server assigns (`uniform`, or `range`),
  and writes members down, so that they stay over a restart. Regular expressions are the part of
  RE2's syntax that says something about topic names; flags, `\\b`, `\\pN`, `[:alpha:]`, references
  and looking ahead or behind are refused with `INVALID_REGULAR_EXPRESSION`, and internal topics
  never match. A group goes from the classic protocol to this one and back member by member: while
  members of both are there, the older ones are told by JoinGroup and SyncGroup what the server
  assigns. That is so for consumers; a classic group of other programs (Connect, Schema Registry)
  has to be empty first, and until then the others are refused (`GROUP_ID_NOT_FOUND`, for JoinGroup
  `INCONSISTENT_GROUP_PROTOCOL`). DescribeGroups does not find consumer groups, as with Kafka.
  Members show themselves every second (`consumer.heartbeat.interval.ms` of the group; 5 with
  Kafka), in groups of more than a thousand less often.

## What is limited
Every limit named here is a [setting](settings.md).
- A frame over `kafka.max_frame_bytes`, or one that is no request, ends its connection; the log of
  the server names the peer and the reason. So does a request that is not served, and one that
  names more than `kafka.max_names` groups, members or transactional ids.
- 512 requests of a connection may be unanswered; more are read when those are answered. A peer that
  does not read its answers is not read from, and given up after `kafka.silence_ms`; so is one whose
  machine has gone without a word.
- Frames that are not whole yet have 32 MiB of memory together, or one frame, if it is larger. A
  peer that does not go on with its frame for ten seconds while others wait for that memory is cut
  off.
- Connections over `kafka.max_connections` are closed at once. Where the system has no more file
  descriptors, those connected are served, and others wait.
- Topics and partitions over `topics.max_topics` and `topics.max_partitions` are refused with
  `INVALID_CONFIG`, members over `groups.max_members` with `GROUP_MAX_SIZE_REACHED`, fetches over
  `kafka.max_fetch_partitions` with `INVALID_REQUEST`, transactional ids over `transactions.max_ids`
  with `INVALID_CONFIG`. 4,096 bytes may stand beside a committed offset.
- A server told to stop (SIGTERM) answers what it was asked: fetches with what there is, produce
  with `NOT_LEADER_OR_FOLLOWER`, members of groups with `COORDINATOR_NOT_AVAILABLE`; clients try
  again.
- A disk that is full or fails is `KAFKA_STORAGE_ERROR` for producers and for changes of topics and
  settings, and `COORDINATOR_NOT_AVAILABLE` for groups and transactions. A full one heals when there
  is space, and of a change that it refused a restart finds nothing; after a sync that failed
  nothing more is acknowledged until the server is started anew, which may find what was refused.
- A topic that is being deleted is gone at once, and its name is free when DeleteTopics is answered:
  until then CreateTopics answers `TOPIC_ALREADY_EXISTS`. Its events are taken away when the
  deletion is durable; if the disk has no room for that, a moment after it has.
"""
GROUPS = """
## Settings of groups
A group has settings whether or not anybody is in it: IncrementalAlterConfigs on a resource of type
GROUP (32), with the name of the group.

| setting | default | what it is |
|---|---|---|
"""


def reference() -> str:
    """Return the page as it should be."""
    rows = [
        f"| {key} | {APIS[key].name} | {each.first} to {each.last} | {WHY.get(key, '')} |"
        if each.first != each.last
        else f"| {key} | {APIS[key].name} | {each.first} | {WHY.get(key, '')} |"
        for key, each in sorted(SERVED.items())
    ]
    settings = [f"| `{name}` | {each.default} | {each.about} |" for name, each in KNOWN.items()]
    return HEAD + "\n".join(rows) + "\n" + TAIL + GROUPS + "\n".join(settings) + "\n"


def test_the_reference_page_has_the_versions_of_today() -> None:
    assert PAGE.read_text() == reference(), "run: python -m tests.heads.kafka.test_kafka_reference"


def test_what_is_left_out_of_a_request_is_said_why() -> None:
    incomplete = {key for key, each in SERVED.items() if each.last < APIS[key].last}

    assert incomplete - WHY.keys() == set()


if __name__ == "__main__":
    PAGE.write_text(reference())
