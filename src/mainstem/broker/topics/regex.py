"""Regular expressions over topic names, compiled to a DFA, so that matching time is linear.

How this works: the parser makes a graph (an NFA) whose nodes each consume one character or none
(``regex_parser``). The subset construction turns it into a table: each state is a set of nodes, and
each entry gives the next state for a class of characters. Matching then costs one table lookup per
character of the name, whatever the expression. Expressions whose table would be too large, or too
much work to build, are refused.
"""

from array import array
from collections.abc import Iterable

from mainstem.broker.topics.regex_parser import END, START, Parser
from mainstem.core.errors import InvalidExpression

MAX_WORK = 300_000
"""Nodes that may be visited to build a table: about a fifth of a second."""
MAX_TABLE = 100_000
"""Entries of one table; each takes two bytes."""
MATCH_BUDGET = 10_000_000
"""Characters that one pass over all topic names may examine: about a second."""
_NOWHERE, _BEGIN = 0, 1
"""The dead state, and the state before the first character."""


class TopicRegex:
    """A compiled regular expression; it must match the whole name of a topic."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._kinds, self._table, self._ends = _Tabulation(Parser(text)).make()
        self._width = 1 + max(self._kinds.values(), default=0)

    @property
    def size(self) -> int:
        """The number of entries of the expression's table."""
        return len(self._table)

    def matches(self, name: str) -> bool:
        """Tell whether the expression matches the whole name."""
        table, width, kind_of = self._table, self._width, self._kinds.get
        state = _BEGIN
        for character in name:
            state = table[state * width + kind_of(character, 0)]
            if state == _NOWHERE:
                return False
        return state in self._ends

    def among(self, names: Iterable[str], budget: int | None = None) -> list[str]:
        """Return the names that match.

        ``budget``: the maximum of all names' characters together, beyond which InvalidExpression is
        raised; None for no maximum.
        """
        found, looked_at = [], 0
        for name in names:
            looked_at += len(name)
            if budget is not None and looked_at > budget:
                raise InvalidExpression(
                    self.text, "there are too many topics to match it against all names"
                )
            if self.matches(name):
                found.append(name)
        return found


class _Tabulation:
    """Builds the table of a graph by the subset construction.

    A leaf is a node that consumes a character. A state is the set of leaves that may have consumed
    the last character; it determines what can follow.
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
        """The character classes that each leaf consumes."""
        self._follow: dict[int, tuple[frozenset[int], bool]] = {}

    def make(self) -> tuple[dict[str, int], "array[int]", frozenset[int]]:
        """Return the character classes, the table, and the accepting states."""
        width = self._width
        table = array("H", bytes(2 * width))
        first = frozenset[int]()
        numbers = {first: _BEGIN}
        """The number of each state, in order of discovery; the first state has consumed nothing."""
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
        """Map each character to its class; characters that no leaf distinguishes share a class."""
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
        """Return the leaves that can consume the next character, and whether the name may end."""
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
        """Return leaves as a state; only one of them if it accepts every possible rest."""
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
        """Return the leaves reachable from nodes, and whether the name may end there."""
        reached = self._closure(nodes, end)
        leaves = frozenset(node for node in reached if node in self._kinds_of)
        return leaves, self._whole.last in self._closure(reached, END)

    def _closure(self, nodes: Iterable[int], end: str | None) -> set[int]:
        """Return all nodes reachable without consuming a character."""
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
        return self._parser.refusal("it is too complex; make it simpler")
