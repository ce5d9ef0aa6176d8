"""Regular expressions that choose among topics: matched in time that no expression can blow up.

How this works: an expression is read into a graph whose nodes each take one character or none
(``topic_regex_syntax``). All ways through the graph are followed at once, for all names that could
be: what can have been taken last is a state, and a table has the state that follows each with each
kind of character. Then a name costs a look into the table for each of its characters, whatever the
expression. An expression whose table is too large, or too much work to make, is refused.
"""

from array import array
from collections.abc import Iterable

from mainstem.broker.topics.regex_parser import END, START, Parser
from mainstem.core.errors import InvalidExpression

MAX_WORK = 300_000
"""Nodes that may be looked at to make a table: about a fifth of a second."""
MAX_TABLE = 100_000
"""Places of one table; each takes two bytes."""
MATCH_BUDGET = 10_000_000
"""How many characters one pass over all names may look at: about a second."""
_NOWHERE, _BEGIN = 0, 1
"""The state that nothing leads out of, and the one before the first character."""


class TopicRegex:
    """An expression that can be asked whether it means a topic; the whole name must match."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._kinds, self._table, self._ends = _Tabulation(Parser(text)).make()
        self._width = 1 + max(self._kinds.values(), default=0)

    @property
    def size(self) -> int:
        """How many places its table has."""
        return len(self._table)

    def matches(self, name: str) -> bool:
        """Tell whether the expression means the whole name."""
        table, width, kind_of = self._table, self._width, self._kinds.get
        state = _BEGIN
        for character in name:
            state = table[state * width + kind_of(character, 0)]
            if state == _NOWHERE:
                return False
        return state in self._ends

    def among(self, names: Iterable[str], budget: int | None = None) -> list[str]:
        """Return the names that match; InvalidExpression if they are longer than a budget."""
        found, looked_at = [], 0
        for name in names:
            looked_at += len(name)
            if budget is not None and looked_at > budget:
                raise InvalidExpression(
                    self.text, "there are too many names to find those that it means"
                )
            if self.matches(name):
                found.append(name)
        return found


class _Tabulation:
    """Makes the table of a graph.

    A leaf is a node that takes a character. A state is the set of leaves one of which may have
    taken the character before, and what can follow these is the same however they were reached.
    """

    def __init__(self, parser: Parser) -> None:
        self._whole = parser.parse()
        self._parser = parser
        self._edges, self._exits = parser.edges, parser.exits
        self._work = 0
        self._kinds = self._kinds_of_characters()
        self._width = 1 + max(self._kinds.values(), default=0)
        kinds_of = {
            edge: frozenset(self._kinds[each] for each in edge)
            for edge in {*self._edges}
            if isinstance(edge, frozenset)
        }
        self._kinds_of = {
            node: kinds_of[edge]
            for node, edge in enumerate(self._edges)
            if isinstance(edge, frozenset)
        }
        """The kinds of characters that each leaf takes."""
        self._follow: dict[int, tuple[frozenset[int], bool]] = {}

    def make(self) -> tuple[dict[str, int], "array[int]", frozenset[int]]:
        """Return the kinds of characters, the table, and the states in which a name may end."""
        width = self._width
        table = array("H", bytes(2 * width))
        first = frozenset[int]()
        numbers = {first: _BEGIN}
        """The states, in the order in which they were found; the first one has taken nothing."""
        ends: set[int] = set()
        for state in (left := [first]):
            ahead, may_end = self._ahead(state)
            if may_end:
                ends.add(numbers[state])
            taken: dict[int, set[int]] = {}
            for leaf in ahead:
                self._spend(len(self._kinds_of[leaf]))
                for kind in self._kinds_of[leaf]:
                    taken.setdefault(kind, set()).add(leaf)
            row = array("H", bytes(2 * width))
            for kind, leaves in taken.items():
                following = self._state(leaves)
                if following not in numbers:
                    numbers[following] = len(numbers) + 1
                    left.append(following)
                row[kind] = numbers[following]
            table += row
            if (len(numbers) + 1) * width > MAX_TABLE:
                raise self._too_complex()
        return self._kinds, table, frozenset(ends)

    def _kinds_of_characters(self) -> dict[str, int]:
        """Give characters the same number if no leaf tells them apart."""
        edges = {edge for edge in self._edges if isinstance(edge, frozenset)}
        takers: dict[str, list[int]] = {}
        for number, edge in enumerate(edges):
            for character in edge:
                takers.setdefault(character, []).append(number)
        kinds: dict[tuple[int, ...], int] = {}
        return {
            character: kinds.setdefault(tuple(numbers), len(kinds) + 1)
            for character, numbers in takers.items()
        }

    def _ahead(self, state: frozenset[int]) -> tuple[Iterable[int], bool]:
        """Return the leaves that can take the next character, and whether none has to."""
        if not state:
            return self._following((self._whole.first,), START)
        ahead: set[int] = set()
        may_end = False
        for leaf in state:
            leaves, ends = self._after(leaf)
            self._spend(1 + len(leaves))
            ahead |= leaves
            may_end = may_end or ends
        return ahead, may_end

    def _state(self, leaves: set[int]) -> frozenset[int]:
        """Return a state; if one leaf takes whatever comes, the others make no difference."""
        for leaf in leaves:
            if len(self._kinds_of[leaf]) == self._width - 1:
                following, may_end = self._after(leaf)
                if may_end and leaf in following:
                    return frozenset((leaf,))
        return frozenset(leaves)

    def _after(self, leaf: int) -> tuple[frozenset[int], bool]:
        if leaf not in self._follow:
            self._follow[leaf] = self._following(self._exits[leaf])
        return self._follow[leaf]

    def _following(
        self, nodes: Iterable[int], end: str | None = None
    ) -> tuple[frozenset[int], bool]:
        """Return the leaves that can be reached from nodes, and whether the name may end there."""
        reached = self._closure(nodes, end)
        leaves = frozenset(node for node in reached if node in self._kinds_of)
        return leaves, self._whole.last in self._closure(reached, END)

    def _closure(self, nodes: Iterable[int], end: str | None) -> set[int]:
        """Return all nodes that can be reached without taking a character."""
        found = set(nodes)
        left = list(found)
        while left:
            node = left.pop()
            edge = self._edges[node]
            if edge is None or edge == end:
                fresh = [each for each in self._exits[node] if each not in found]
                found.update(fresh)
                left += fresh
        self._spend(len(found))
        return found

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > MAX_WORK:
            raise self._too_complex()

    def _too_complex(self) -> InvalidExpression:
        return self._parser.refusal("it can go on in too many ways; make it simpler")
