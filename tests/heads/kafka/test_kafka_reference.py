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
  and Produce adds partitions to the transaction implicitly (KIP-890). Older clients first add
  partitions and groups by AddPartitionsToTxn and AddOffsetsToTxn, and keep their epoch. Both may
  use the same transactional id, one after the other.
- The server uses the newer error codes (`PRODUCER_FENCED`, `TRANSACTION_ABORTABLE`) in request
  versions that define them, and older codes in all others.
- Topics are identified by id from Produce 13, Fetch 13, OffsetCommit 10 and OffsetFetch 10 on: a
  topic that was deleted and created again under the same name is another topic.
- InitProducerId 6: a client that requests two-phase commit gets
  `TRANSACTIONAL_ID_AUTHORIZATION_FAILED`, as from an Apache Kafka that does not allow it; a
  client that requests to keep a prepared transaction gets `UNSUPPORTED_VERSION`.
- Fetch sessions: since Fetch 7 a consumer sends the list of its partitions only once. There are
  at most 1,000 sessions with 50,000 partitions in total. A session unused for two minutes may be
  evicted for a new one, and every session ends with its connection. Consumers without a session
  send all partitions in every fetch. These and other limits are [settings](settings.md).
- Share groups: a session belongs to one member and ends with its connection; there are at most
  10,000 sessions with 500,000 partitions in total. ApiVersions does not announce the feature
  `share.version`, as no client needs it. A ShareFetch returns as soon as there is one event
  (`fetch.min.bytes` above 1 has no effect). A share group without members exists as long as it
  has an offset in some topic; in Apache Kafka it exists until it is deleted. Acknowledging a
  record that another member has settled meanwhile returns `INVALID_RECORD_STATE`, which Apache
  Kafka does not always do.
- OffsetCommit stores offsets below 0, and OffsetFetch returns them, as in Apache Kafka: KafkaJS
  commits -1 and -2 to reset a group. The server treats such an offset as if nothing was committed
  when it computes lag and backlog, and consumers start according to their own
  `auto.offset.reset`.
- OffsetFetch with `require_stable` returns `UNSTABLE_OFFSET_COMMIT` for an offset that an ongoing
  transaction will commit; OffsetDelete returns `GROUP_SUBSCRIBED_TO_TOPIC` for topics that
  members of the group read.
- Classic groups, also those of Kafka Connect: members of a stable generation survive a restart,
  as in Apache Kafka. They continue with their member ids and generation if they reconnect within
  their session timeout. If a generation had no assignments yet, the rebalance starts again.
- Consumer groups (`group.protocol=consumer`, KIP-848): the server assigns the partitions
  (`uniform` or `range`) and stores the members, so that they survive a restart. Regular
  expressions are a subset of RE2: flags, `\\b`, `\\pN`, `[:alpha:]`, back-references, lookahead
  and lookbehind are refused with `INVALID_REGULAR_EXPRESSION`. Internal topics never match. A
  group can be upgraded from the classic protocol to the consumer protocol, and back, member by
  member: while it has members of both protocols, the members of the classic protocol get the
  server's assignments by JoinGroup and SyncGroup. This works for consumers only. A classic group
  of other programs (Connect, Schema Registry) must be empty before members of the other protocol
  can join; until then they are refused (`GROUP_ID_NOT_FOUND`, for JoinGroup
  `INCONSISTENT_GROUP_PROTOCOL`). DescribeGroups does not find consumer groups, as in Kafka. The
  heartbeat interval is one second (`consumer.heartbeat.interval.ms` of the group; 5 seconds in
  Kafka), and longer in groups of more than a thousand members.

## Limits
Every limit named here is a [setting](settings.md).
- The server closes a connection that sends a frame over `kafka.max_frame_bytes`, a frame that is
  not a request, an unsupported request, or a request that names more than `kafka.max_names`
  groups, members or transactional ids. It logs the peer and the reason.
- A connection may have 512 unanswered requests; the server reads further ones only when these are
  answered. The server does not read from a peer that does not read its answers, and disconnects
  it after `kafka.silence_ms`. It also disconnects a peer whose host does not respond for that
  time.
- All incomplete frames together may use 32 MiB of memory; a single frame may be larger if it is
  the only one. The server disconnects a peer whose frame does not grow for ten seconds while
  others wait for that memory.
- Connections over `kafka.max_connections` are closed at once. If the system has no more file
  descriptors, existing connections are served, and new ones wait.
- These requests are refused with an error: topics and partitions over `topics.max_topics` and
  `topics.max_partitions` (`INVALID_CONFIG`), members over `groups.max_members`
  (`GROUP_MAX_SIZE_REACHED`), fetches of more than `kafka.max_fetch_partitions` partitions
  (`INVALID_REQUEST`), and transactional ids over `transactions.max_ids` (`INVALID_CONFIG`). The
  metadata of a committed offset may have 4,096 bytes.
- A stopping server (SIGTERM) answers all requests: fetches with the events available, produce
  with `NOT_LEADER_OR_FOLLOWER`, group members with `COORDINATOR_NOT_AVAILABLE`; clients retry.
- If the disk is full or has failed, the server answers Produce and changes of topics and configs
  with `KAFKA_STORAGE_ERROR`, and requests of groups and transactions with
  `COORDINATOR_NOT_AVAILABLE`. After a full disk it continues as soon as there is space, and
  changes that were refused do not reappear after a restart. After a failed sync the server
  acknowledges nothing more until it is restarted; changes that were refused may then reappear.
- A deleted topic disappears at once. Its name can be used again when DeleteTopics is answered;
  until then CreateTopics returns `TOPIC_ALREADY_EXISTS`. Its data is deleted when the deletion is
  durable; on a full disk, as soon as there is space.
"""
GROUPS = """
## Group configs
Group configs are set by IncrementalAlterConfigs on a resource of type GROUP (32), with the name
of the group, which needs no members yet.

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
