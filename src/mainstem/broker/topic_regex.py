r"""Regular expressions that choose among topics: matched in time that no expression can blow up.

How this works: the syntax is the part of RE2's that says something about a whole name made of
letters, digits, ``.``, ``_`` and ``-``; everything else is refused by name, never guessed. An
expression is parsed into a graph whose nodes each take one character or none. Matching follows all
ways through the graph at once (a set of nodes per character), so nothing is ever tried again, and
each set that was seen is kept with what follows from it. What a pass over many names may cost is
a budget of nodes looked at; an expression that needs more is refused.

    a  .  [a-z_]  [^0-9]  \d \w \s \D \W \S  \.     characters
    (x)  (?:x)  (?P<name>x)  x|y                    groups, and one or the other
    x*  x+  x?  x{2}  x{2,}  x{2,5}  x*?            repetitions, lazy or not
    ^  $  \A  \z                                    the ends of the name
"""

from collections.abc import Iterable
from typing import NamedTuple

from mainstem.core.errors import InvalidExpression

MAX_LENGTH = 1_000
MAX_NODES = 5_000
"""Of one graph; a counted repetition copies what it repeats."""
MAX_REPEAT = 1_000
MAX_DEPTH = 100
BUDGET = 1_000_000
"""How many nodes one pass over all names may look at: about half a second."""
_MAX_SETS = 5_000
"""How many sets of nodes are kept before all are forgotten."""

_DIGITS = frozenset("0123456789")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SPACE = frozenset("\t\n\f\r ")
_ASCII = frozenset(map(chr, range(128)))
_CLASSES = {
    "d": _DIGITS,
    "w": _WORD,
    "s": _SPACE,
    "D": _ASCII - _DIGITS,
    "W": _ASCII - _WORD,
    "S": _ASCII - _SPACE,
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_START, _END = "start", "end"
_Edge = frozenset[str] | str | None
"""What a node takes: one of some characters, nothing at an end of the name, or nothing at all."""


class _Piece(NamedTuple):
    """A part of the graph, by its first and its last node."""

    first: int
    last: int


class TopicRegex:
    """An expression that can be asked whether it means a topic; the whole name must match."""

    def __init__(self, text: str) -> None:
        parser = _Parser(text)
        whole = parser.parse()
        self.text = text
        self._edges, self._exits = parser.edges, parser.exits
        self._final = whole.last
        self._cost = 0
        self._begin = self._closure({whole.first}, _START)
        self._next: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._ends: dict[frozenset[int], bool] = {}

    def matches(self, name: str) -> bool:
        """Tell whether the expression means the whole name."""
        nodes = self._begin
        for character in name:
            following = self._next.get((nodes, character))
            if following is None:
                following = self._step(nodes, character)
            if not following:
                return False
            nodes = following
        found = self._ends.get(nodes)
        if found is None:
            found = self._ends[nodes] = self._final in self._closure(nodes, _END)
        return found

    def among(self, names: Iterable[str], budget: int | None = None) -> list[str]:
        """Return the names that match; InvalidExpression if that costs more than a budget."""
        self._cost = 0
        found = []
        for name in names:
            if self.matches(name):
                found.append(name)
            if budget is not None and self._cost > budget:
                raise InvalidExpression(
                    self.text, "it takes too long to find the topics it means; make it simpler"
                )
        return found

    def _step(self, nodes: frozenset[int], character: str) -> frozenset[int]:
        if len(self._next) >= _MAX_SETS:
            self._next.clear()
            self._ends.clear()
        self._cost += len(nodes)
        taken = {
            target
            for node in nodes
            if isinstance(edge := self._edges[node], frozenset) and character in edge
            for target in self._exits[node]
        }
        following = self._closure(taken) if taken else frozenset()
        self._next[nodes, character] = following
        return following

    def _closure(self, nodes: Iterable[int], end: str | None = None) -> frozenset[int]:
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
        self._cost += len(found)
        return frozenset(found)


class _Parser:
    """Reads one expression into a graph."""

    def __init__(self, text: str) -> None:
        self.edges: list[_Edge] = []
        self.exits: list[list[int]] = []
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> _Piece:
        """Return the graph of the whole expression."""
        if len(self._text) > MAX_LENGTH:
            raise self._refusal(f"it has {len(self._text)} characters, at most {MAX_LENGTH} may be")
        whole = self._choice()
        if self._at < len(self._text):
            raise self._refusal("there is a ) without a (")
        return whole

    def _choice(self) -> _Piece:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refusal(f"its groups are nested more than {MAX_DEPTH} deep")
        ways = [self._sequence()]
        while self._take("|"):
            ways.append(self._sequence())
        self._depth -= 1
        if len(ways) == 1:
            return ways[0]
        first, last = self._node(None), self._node(None)
        for way in ways:
            self.exits[first].append(way.first)
            self.exits[way.last].append(last)
        return _Piece(first, last)

    def _sequence(self) -> _Piece:
        first = last = self._node(None)
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            part = self._repeated()
            self.exits[last].append(part.first)
            last = part.last
        return _Piece(first, last)

    def _repeated(self) -> _Piece:
        begin = self._at
        part = self._single()
        end = self._at
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._text[self._at : self._at + 1] in ("*", "+", "{") and self._bounds() is not None:
            raise self._refusal("a repetition is repeated")
        return self._times(part, bounds, begin, end)

    def _bounds(self) -> tuple[int, int | None] | None:
        """Return how often what stands before is repeated, None if nothing says so."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                self._lazy()
                return bounds
        close = self._text.find("}", self._at)
        if self._text[self._at : self._at + 1] != "{" or close < 0:
            return None
        least, comma, most = self._text[self._at + 1 : close].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            # Braces that do not count stand for themselves.
            return None
        self._at = close + 1
        self._lazy()
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if max(low, high or 0) > MAX_REPEAT or (high is not None and high < low):
            raise self._refusal(f"a repetition goes from less to more, and to {MAX_REPEAT} at most")
        return low, high

    def _lazy(self) -> None:
        """Pass over a sign that only says in which order ways are tried."""
        self._take("?")
        if self._text[self._at : self._at + 1] == "+":
            raise self._refusal("repetitions that do not give back (x*+) are not understood")

    def _times(self, part: _Piece, bounds: tuple[int, int | None], begin: int, end: int) -> _Piece:
        """Repeat a part, by reading its text again for every copy that is needed."""
        least, most = bounds
        first = last = self._node(None)
        if most == 0:
            return _Piece(first, last)
        copies = [part]
        after, needed = self._at, max(least, 1) if most is None else max(most, 1)
        while len(copies) < needed:
            self._at = begin
            copies.append(self._single())
            if self._at != end:
                raise AssertionError("a part of an expression is read in two ways")
        self._at = after
        skips: list[int] = []
        for number, copy in enumerate(copies):
            if number >= least:
                skips.append(last)
            self.exits[last].append(copy.first)
            last = copy.last
        final = self._node(None)
        self.exits[last].append(final)
        if most is None:
            self.exits[last].append(copies[-1].first)
        for each in skips:
            self.exits[each].append(final)
        return _Piece(first, final)

    def _single(self) -> _Piece:
        """Read one character, class, end or group."""
        sign = self._text[self._at]
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._leaf(self._class())
        if sign == "\\":
            return self._leaf(self._escape())
        if sign in "*+?":
            raise self._refusal(f"there is nothing before a {sign} that it could repeat")
        edges: dict[str, _Edge] = {".": _ASCII - {"\n"}, "^": _START, "$": _END}
        return self._leaf(edges.get(sign, frozenset(sign)))

    def _group(self) -> _Piece:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise self._refusal("looking ahead or behind is not understood")
                self._at += len(name) + 1
            elif not self._take(":"):
                raise self._refusal("flags, and looking ahead or behind, are not understood")
        inner = self._choice()
        if not self._take(")"):
            raise self._refusal("there is a ( without a )")
        return inner

    def _escape(self) -> _Edge:
        if self._at == len(self._text):
            raise self._refusal("it ends with a \\")
        sign = self._text[self._at]
        self._at += 1
        if sign == "A":
            return _START
        if sign == "z":
            return _END
        return self._escaped(sign)

    def _escaped(self, sign: str) -> frozenset[str]:
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _CONTROLS:
            return frozenset(_CONTROLS[sign])
        if sign.isalnum():
            raise self._refusal(f"\\{sign} is not understood")
        return frozenset(sign)

    def _class(self) -> frozenset[str]:
        inverted = self._take("^")
        found: set[str] = set()
        is_first = True
        while is_first or not self._take("]"):
            is_first = False
            low = self._member()
            if len(low) == 1 and self._is_range():
                self._at += 1
                high = self._member()
                if len(high) != 1 or max(high) < max(low):
                    raise self._refusal("a range of characters goes from less to more")
                found.update(map(chr, range(ord(max(low)), ord(max(high)) + 1)))
            else:
                found |= low
        return frozenset(_ASCII - found if inverted else found)

    def _is_range(self) -> bool:
        return self._text[self._at : self._at + 1] == "-" and self._text[self._at + 1 :][
            :1
        ] not in (
            "]",
            "",
        )

    def _member(self) -> frozenset[str]:
        if self._at >= len(self._text):
            raise self._refusal("there is a [ without a ]")
        if self._text.startswith(("[:", "[.", "[="), self._at):
            raise self._refusal("named classes such as [:alpha:] are not understood")
        sign = self._text[self._at]
        self._at += 1
        if sign != "\\":
            return frozenset(sign)
        if self._at == len(self._text):
            raise self._refusal("it ends with a \\")
        self._at += 1
        return self._escaped(self._text[self._at - 1])

    def _leaf(self, edge: _Edge) -> _Piece:
        first, last = self._node(edge), self._node(None)
        self.exits[first].append(last)
        return _Piece(first, last)

    def _node(self, edge: _Edge) -> int:
        if len(self.edges) >= MAX_NODES:
            raise self._refusal("it is too large; repeat less")
        self.edges.append(edge)
        self.exits.append([])
        return len(self.edges) - 1

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def _refusal(self, reason: str) -> InvalidExpression:
        return InvalidExpression(self._text, reason)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
