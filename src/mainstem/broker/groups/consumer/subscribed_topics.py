"""The topics that consumer group members subscribe to, by name or by regular expression."""

from collections.abc import Iterable, Sequence

from mainstem.broker.groups.consumer.records import ConsumerGroup, ConsumerMember, Profile
from mainstem.broker.topics.catalog import Topics
from mainstem.broker.topics.regex import MATCH_BUDGET, TopicRegex
from mainstem.core.errors import InvalidExpression, InvalidSetting
from mainstem.log.port import PartitionId

MAX_REGEXES = 1_000
"""Maximum number of regular expressions of all groups; each new topic is matched to all."""
MAX_PLACES = 20_000_000
"""Maximum number of entries of all expressions' matching tables together: 40 MB."""


class SubscribedTopics:
    """Matches subscriptions with existing topics; used under the broker's lock."""

    def __init__(self, topics: Topics, max_places: int = MAX_PLACES) -> None:
        self._topics = topics
        self._max_places = max_places
        self._regexes: dict[str, TopicRegex] = {}
        self._meant: dict[str, set[str]] = {}
        """The existing topics that each regular expression matches; internal topics never match."""

    def learn(self, text: str) -> None:
        """Compile and match a new regular expression; raises InvalidExpression."""
        if self.knows(text):
            return
        if len(self._regexes) >= MAX_REGEXES:
            raise self._full()
        regex = TopicRegex(text)
        if sum(each.size for each in self._regexes.values()) + regex.size > self._max_places:
            raise self._full()
        self._take_in(regex, MATCH_BUDGET)

    def learn_again(self, text: str) -> None:
        """Compile and match, after a restart, a regular expression that was accepted earlier."""
        try:
            self._take_in(TopicRegex(text), None)
        except InvalidExpression:
            # An older version accepted it; the member's next heartbeat gets the error.
            self._meant[text] = set()

    def knows(self, text: str) -> bool:
        """Tell whether an expression is empty or already known."""
        return not text or text in self._regexes

    def _take_in(self, regex: TopicRegex, budget: int | None) -> None:
        names = (each.name for each in self._topics if not each.internal)
        self._meant[regex.text] = set(regex.among(names, budget))
        self._regexes[regex.text] = regex

    def _full(self) -> InvalidSetting:
        return InvalidSetting(
            f"consumers use {len(self._regexes)} regular expressions, and no more can be kept; "
            "subscribe by name"
        )

    def unlearn(self, text: str) -> None:
        """Drop a regular expression that no member uses any more."""
        self._regexes.pop(text, None)
        self._meant.pop(text, None)

    def of(self, profile: Profile) -> frozenset[str]:
        """Return the existing topics that a member subscribes to."""
        found = {each for each in profile.names if self._topics.find(each) is not None}
        return frozenset(found | self._meant.get(profile.regex, set()))

    def of_group(self, group: ConsumerGroup) -> set[str]:
        """Return the existing topics that any member of a group subscribes to."""
        found = {each for each in group.names if self._topics.find(each) is not None}
        return found.union(*(self._meant[each] for each in group.regexes))

    def partitions(self, names: Iterable[str]) -> dict[str, Sequence[PartitionId]]:
        """Return the partitions of topics, by topic name."""
        return {each: self._topics.get(each).partitions for each in sorted(names)}

    def are_met(self, group: ConsumerGroup, members: Iterable[ConsumerMember]) -> bool:
        """Tell whether the members' targets are exactly the partitions of all subscribed topics."""
        wanted = {at for each in self.of_group(group) for at in self._topics.get(each).partitions}
        return wanted == {at for member in members for at in member.target}

    def topic_changed(self, name: str) -> set[str]:
        """Note that a topic was created, changed or deleted; return the expressions it matches."""
        topic = self._topics.find(name)
        is_there = topic is not None and not topic.internal
        concerned = set()
        for text, regex in self._regexes.items():
            if regex.matches(name):
                concerned.add(text)
                (self._meant[text].add if is_there else self._meant[text].discard)(name)
        return concerned
