"""Which topics the members of consumer groups mean, by name or by regular expression."""

from collections.abc import Iterable, Sequence

from mainstem.broker.consumer_group_fold import ConsumerGroup, ConsumerMember, Profile
from mainstem.broker.topic_regex import BUDGET, TopicRegex
from mainstem.broker.topics import Topics
from mainstem.core.errors import InvalidSetting
from mainstem.log.port import PartitionId

MAX_REGEXES = 1_000
"""Of all groups: each is asked about every topic that comes."""


class Wishes:
    """What members mean, among the topics that there are; used under the broker's lock."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics
        self._regexes: dict[str, TopicRegex] = {}
        self._meant: dict[str, set[str]] = {}
        """The topics that each regular expression means now; never internal ones."""

    def learn(self, text: str, budget: int | None = BUDGET) -> None:
        """Find out what a regular expression means; InvalidExpression if that cannot be done."""
        if text in self._regexes:
            return
        if budget is not None and len(self._regexes) >= MAX_REGEXES:
            raise InvalidSetting(
                f"consumers use {MAX_REGEXES} regular expressions already; subscribe by name"
            )
        regex = TopicRegex(text)
        names = (each.name for each in self._topics if not each.internal)
        self._meant[text] = set(regex.among(names, budget))
        self._regexes[text] = regex

    def unlearn(self, text: str) -> None:
        """Forget a regular expression that nobody uses any more."""
        self._regexes.pop(text, None)
        self._meant.pop(text, None)

    def of(self, profile: Profile) -> frozenset[str]:
        """Return the topics that a member means."""
        found = {each for each in profile.names if self._topics.find(each) is not None}
        return frozenset(found | self._meant.get(profile.regex, set()))

    def of_group(self, group: ConsumerGroup) -> set[str]:
        """Return the topics that some member means."""
        found = {each for each in group.names if self._topics.find(each) is not None}
        return found.union(*(self._meant[each] for each in group.regexes))

    def partitions(self, names: Iterable[str]) -> dict[str, Sequence[PartitionId]]:
        """Return the partitions of topics, by the names of these."""
        return {each: self._topics.get(each).partitions for each in sorted(names)}

    def are_met(self, group: ConsumerGroup, members: Iterable[ConsumerMember]) -> bool:
        """Tell whether all that is to be owned, and nothing else, has been assigned."""
        wanted = {at for each in self.of_group(group) for at in self._topics.get(each).partitions}
        return wanted == {at for member in members for at in member.target}

    def topic_changed(self, name: str) -> set[str]:
        """Take note that a topic came, changed or went; return what expressions mean it."""
        topic = self._topics.find(name)
        is_there = topic is not None and not topic.internal
        concerned = set()
        for text, regex in self._regexes.items():
            if regex.matches(name):
                concerned.add(text)
                (self._meant[text].add if is_there else self._meant[text].discard)(name)
        return concerned
