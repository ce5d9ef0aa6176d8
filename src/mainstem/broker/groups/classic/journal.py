"""The journals of classic groups: numbers of generations, and members of stable ones."""

from collections.abc import Callable, Iterable

from mainstem.broker.groups.classic.generations import (
    Generation,
    GenerationChange,
    GenerationKey,
    Generations,
)
from mainstem.broker.groups.classic.records import (
    Agreement,
    ClassicGroupChange,
    ClassicGroupFold,
    ClassicGroupKey,
    Value,
    WrittenMember,
)
from mainstem.broker.journal import CLASSIC_GROUPS, GENERATIONS, Journal
from mainstem.log.port import Batches, Durable, Log


class ClassicJournal:
    """The two journals of classic groups, with their contents; used under the broker's lock."""

    def __init__(self, log: Log, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.generations = Generations()
        self.members = ClassicGroupFold()
        self._numbers = Journal[GenerationKey, Generation](
            log, GENERATIONS, GenerationKey, Generation
        )
        self._members = Journal[ClassicGroupKey, Value](
            log, CLASSIC_GROUPS, ClassicGroupKey, Agreement | WrittenMember
        )
        number, member = self.generations.apply, self.members.apply
        self._numbers.replay(lambda key, value: number(GenerationChange(key, value)))
        self._members.replay(lambda key, value: member(ClassicGroupChange(key, value)))

    def write(
        self,
        numbers: Iterable[GenerationChange] = (),
        members: Iterable[ClassicGroupChange] = (),
    ) -> Durable:
        """Append generation numbers and members to their two topics, all or nothing; apply them."""
        numbers, members = list(numbers), list(members)
        now_ms = self._now_ms()
        beside = self._members.batches(members, now_ms)
        durable = self._numbers.append(numbers, now_ms, beside)
        self.apply(numbers, members)
        return durable

    def batches(
        self,
        numbers: Iterable[GenerationChange] = (),
        members: Iterable[ClassicGroupChange] = (),
    ) -> Batches:
        """Encode changes as record batches, which the caller appends together with others."""
        now_ms = self._now_ms()
        return [*self._numbers.batches(numbers, now_ms), *self._members.batches(members, now_ms)]

    def apply(
        self,
        numbers: Iterable[GenerationChange] = (),
        members: Iterable[ClassicGroupChange] = (),
    ) -> None:
        """Apply changes whose record batches the caller has appended."""
        for number in numbers:
            self.generations.apply(number)
        for member in members:
            self.members.apply(member)

    def forget(self, name: str) -> Durable:
        """Delete a group: its generation number, and its members if any are stored."""
        return self.write(self.generations.forget(name), self.members.forget(name))
