"""Consumer groups: members, committed offsets, setting these offsets, deleting groups."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import ConsumerGroupDescription

from mainstem.core.errors import GroupIsLive, UnknownGroup
from mainstem.remote.admin import Admin, Place
from mainstem.remote.errors import LOST_MEMBERSHIP, core_error, kafka_error


class GroupState(msgspec.Struct, frozen=True):
    """The state of a group: its members with their partitions, and its committed offsets."""

    name: str
    members: dict[str, tuple[Place, ...]]
    cursors: dict[Place, int]


class ConsumerGroups:
    """Administration of consumer groups; thread-safe."""

    def __init__(self, administration: Admin) -> None:
        self._cluster = administration.cluster
        self._administration = administration
        self._wait = {"request_timeout": self._cluster.timeout_s}

    def names(self) -> tuple[str, ...]:
        """Return the names of all groups."""
        listed = self._cluster.result(
            self._administration.client.list_consumer_groups(**self._wait)
        )
        if not listed.valid and listed.errors:
            raise self._cluster.refusal(listed.errors[0])
        return tuple(sorted(each.group_id for each in listed.valid))

    def states(self, names: Iterable[str]) -> tuple[GroupState, ...]:
        """Return the states of groups; unknown groups are left out."""
        described = self._cluster.retry_while_busy(lambda: self._described(list(names)))
        # One group per request, many requests in flight. Only after describing the groups:
        # librdkafka crashes if this is answered NOT_COORDINATOR or COORDINATOR_NOT_AVAILABLE.
        asked = {
            name: self._administration.client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], **self._wait
            )[name]
            for name in described
        }
        found = []
        for name, description in described.items():
            try:
                listed = self._cluster.result(asked[name], group=name)
            except UnknownGroup:
                continue
            cursors = {
                (at.topic, at.partition): at.offset
                for at in listed.topic_partitions or ()
                if at.offset >= 0 and at.error is None
            }
            if description.state == ConsumerGroupState.DEAD and not cursors:
                continue
            found.append(GroupState(name, _members(description), cursors))
        return tuple(found)

    def _described(self, names: list[str]) -> dict[str, ConsumerGroupDescription]:
        """Return the groups' descriptions, with their members; unknown groups are left out."""
        if not names:
            return {}
        found = {}
        for name, future in self._administration.client.describe_consumer_groups(
            names, **self._wait
        ).items():
            with suppress(UnknownGroup):
                found[name] = self._cluster.result(future, group=name)
        return found

    def state(self, name: str) -> GroupState:
        """Return the state of one group; raises UnknownGroup."""
        found = self.states([name])
        if not found:
            raise UnknownGroup(name)
        return found[0]

    def move(self, group: str, offsets: Mapping[Place, int]) -> None:
        """Set the committed offsets of a group, which must not have members."""
        self._cluster.retry_while_busy(lambda: self._move(group, offsets))

    def _move(self, group: str, offsets: Mapping[Place, int]) -> None:
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, places)]
        future = self._administration.client.alter_consumer_group_offsets(asked, **self._wait)[
            group
        ]
        try:
            done = future.result(self._cluster.timeout_s)
        except KafkaException as error:
            if kafka_error(error).code() in LOST_MEMBERSHIP:
                raise GroupIsLive(group, "it has members", "moved") from None
            raise self._cluster.refusal(error, group=group) from None
        for at in done.topic_partitions or ():
            if at.error is not None:
                self._refuse(at, group)

    def delete(self, group: str) -> None:
        """Delete a group, which must not have members."""
        futures = self._administration.client.delete_consumer_groups([group], **self._wait)
        self._cluster.result(futures[group], group=group)

    def _refuse(self, at: TopicPartition, group: str) -> None:
        error = at.error
        assert isinstance(error, KafkaError)
        if error.code() in LOST_MEMBERSHIP:
            raise GroupIsLive(group, "it has members", "moved")
        raise core_error(
            error, self._cluster.address, topic=at.topic, partition=at.partition, group=group
        )


def _members(description: ConsumerGroupDescription) -> dict[str, tuple[Place, ...]]:
    return {
        member.member_id: tuple(
            sorted(
                (at.topic, at.partition)
                for at in (member.assignment.topic_partitions if member.assignment else ())
            )
        )
        for member in description.members
    }
