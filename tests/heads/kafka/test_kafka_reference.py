"""The page that tells which requests are served in which versions, and what is not."""

from pathlib import Path

from mainstem.broker.groups.configs import KNOWN
from mainstem.heads.kafka.adapter.apis import SERVED
from mainstem.kafka_protocol.apis import APIS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "kafka.md"

WHY = {
    0: "versions 0 to 2 carry older record formats, which Kafka 4 refuses, too",
    22: "two-phase commit by an external coordinator (version 6) is refused with an error code",
    24: "later versions are for brokers only",
    29: "there are no ACLs yet: refused with `SECURITY_DISABLED`",
    30: "the same",
    31: "the same",
}
"""What is left out of requests that are served."""

HEAD = """# The Kafka protocol

The requests and versions that `mainstem serve` supports, as ApiVersions announces them. A client
that sends any other request is disconnected, and the server logs the reason.

| key | request | versions | not supported |
|---|---|---|---|
"""
TAIL = """
## Rules that depend on the version
- Transactions: the feature `transaction.version` is 2. For clients that use it (EndTxn 5, Produce
  12, TxnOffsetCommit 5: the Java client since 4.0) the end of every transaction bumps the epoch,
  and Produce adds partitions to the transaction implicitly (KIP-890). Older clients add
  partitions and groups first, and keep their epoch. Both may use the same transactional id, one
  after the other.
- Newer error codes (`PRODUCER_FENCED`, `TRANSACTION_ABORTABLE`) are used in versions that know
  them, the older ones in all others.
- Topics are identified by id from Produce 13, Fetch 13, OffsetCommit 10 and OffsetFetch 10 on: a
  topic that was deleted and created again under the same name is another topic.
- InitProducerId 6: a client that asks for two-phase commit gets
  `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`, as from a Kafka that does not allow it; a client that
  wants to keep a prepared transaction gets `UNSUPPORTED_VERSION`.
- Fetch sessions: since Fetch 7 a consumer sends its partitions once. There are at most 1,000
  sessions with 50,000 partitions in total. A session unused for two minutes may be evicted for a
  new one, and every session ends with its connection. Consumers without a session send all
  partitions in every fetch. These and other limits are [settings](settings.md).
- Share groups: a session belongs to one member and ends with its connection; there are at most
  10,000 sessions with 500,000 partitions in total. The feature `share.version` is not announced,
  as no client asks for it. A fetch returns as soon as there is one event (`fetch.min.bytes` above
  1 has no effect). A group without members exists as long as it has an offset in some topic; in
  Apache Kafka it exists until it is deleted. Acknowledging a record that another member has
  settled meanwhile returns `INVALID_RECORD_STATE`, which Apache Kafka does not always do.
- OffsetCommit stores offsets below 0, and OffsetFetch returns them, as in Apache Kafka: KafkaJS
  commits -1 and -2 to reset a group. For lag and backlog this counts as no commit, and consumers
  start by their own `auto.offset.reset`.
- OffsetFetch with `require_stable` returns `UNSTABLE_OFFSET_COMMIT` for an offset that an ongoing
  transaction will commit; OffsetDelete returns `GROUP_SUBSCRIBED_TO_TOPIC` for topics that
  members of the group read.
- Classic groups, also those of Kafka Connect: members of a stable generation survive a restart,
  as in Apache Kafka. They continue with their member ids and generation; each has its session
  timeout to reconnect. A generation without assignments yet is started again.
- Consumer groups (`group.protocol=consumer`, KIP-848): the server assigns the partitions
  (`uniform` or `range`) and stores the members, so that they survive a restart. Regular
  expressions are the subset of RE2 that makes sense for topic names; flags, `\\b`, `\\pN`,
  `[:alpha:]`, back-references, lookahead and lookbehind are refused with
  `INVALID_REGULAR_EXPRESSION`, and internal topics never match. A group moves from the classic
  protocol to this one and back member by member: while it has members of both, the classic ones
  get the server's assignments by JoinGroup and SyncGroup. This works for consumers only; a
  classic group of other programs (Connect, Schema Registry) must be empty first, and until then
  members of the other protocol are refused (`GROUP_ID_NOT_FOUND`, for JoinGroup
  `INCONSISTENT_GROUP_PROTOCOL`). DescribeGroups does not find consumer groups, as in Kafka. The
  heartbeat interval is one second (`consumer.heartbeat.interval.ms` of the group; 5 in Kafka),
  longer in groups of more than a thousand members.

## Limits
Every limit named here is a [setting](settings.md).
- A frame over `kafka.max_frame_bytes`, or one that is not a request, closes its connection; the
  server logs the peer and the reason. So does an unsupported request, and one that names more
  than `kafka.max_names` groups, members or transactional ids.
- A connection may have 512 unanswered requests; more are read when those are answered. The server
  does not read from a peer that does not read its answers, and disconnects it after
  `kafka.silence_ms`; the same holds for a peer whose host does not respond.
- Incomplete frames may use 32 MiB of memory in total, or one larger frame. A peer whose frame
  does not grow for ten seconds while others wait for that memory is disconnected.
- Connections over `kafka.max_connections` are closed at once. If the system has no more file
  descriptors, existing connections are served, and new ones wait.
- Topics and partitions over `topics.max_topics` and `topics.max_partitions` are refused with
  `INVALID_CONFIG`, members over `groups.max_members` with `GROUP_MAX_SIZE_REACHED`, fetches over
  `kafka.max_fetch_partitions` with `INVALID_REQUEST`, transactional ids over
  `transactions.max_ids` with `INVALID_CONFIG`. The metadata of a committed offset may have 4,096
  bytes.
- A stopping server (SIGTERM) answers all requests: fetches with the events available, produce
  with `NOT_LEADER_OR_FOLLOWER`, group members with `COORDINATOR_NOT_AVAILABLE`; clients retry.
- On a full or failed disk, producers and changes of topics and configs get `KAFKA_STORAGE_ERROR`,
  groups and transactions `COORDINATOR_NOT_AVAILABLE`. A full disk recovers when there is space,
  and a refused change does not reappear after a restart. After a failed sync nothing more is
  acknowledged until the server is restarted; then refused changes may reappear.
- A deleted topic disappears at once, and its name is free when DeleteTopics is answered: until
  then CreateTopics returns `TOPIC_ALREADY_EXISTS`. Its data is deleted when the deletion is
  durable; on a full disk, as soon as there is space.
"""
GROUPS = """
## Group configs
A group can have configs before it has members: IncrementalAlterConfigs on a resource of type GROUP
(32), with the name of the group.

| config | default | meaning |
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
