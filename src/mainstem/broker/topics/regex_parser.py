r"""Parser of regular expressions over topic names: builds a graph, or refuses with a reason.

The syntax is the subset of RE2 that makes sense for a whole topic name (letters, digits, ``.``,
``_`` and ``-``); all else is refused. Each node of the graph consumes one character or none.

    a  .  [a-z_]  [^0-9]  \d \w \s \D \W \S  \.     characters
    (x)  (?:x)  (?P<name>x)  x|y                    groups, and one or the other
    x*  x+  x?  x{2}  x{2,}  x{2,5}  x*?            repetitions, lazy or not
    ^  $  \A  \z                                    the ends of the name
"""

from typing import NamedTuple

from mainstem.core.errors import InvalidExpression

MAX_LENGTH = 1_000
MAX_NODES = 5_000
"""Maximum number of nodes of one graph; ``x{5}`` makes five copies of ``x``."""
MAX_REPEAT = 1_000
MAX_DEPTH = 100

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
START, END = "start", "end"
Edge = frozenset[str] | str | None
"""What a node consumes: a character of a set; or nothing: only at an end of the name (a str), or
anywhere (None).
"""


class Piece(NamedTuple):
    """A part of the graph, given by its first and last nodes."""

    first: int
    last: int


class Parser:
    """Parses one expression into a graph."""

    def __init__(self, text: str) -> None:
        self.edges: list[Edge] = []
        self.exits: list[list[int]] = []
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> Piece:
        """Return the graph of the whole expression."""
        if len(self._text) > MAX_LENGTH:
            raise self.refusal(f"it has {len(self._text)} characters, at most {MAX_LENGTH} may be")
        whole = self._choice()
        if self._at < len(self._text):
            raise self.refusal("there is a ) without a (")
        return whole

    def _choice(self) -> Piece:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refusal(f"its groups are nested more than {MAX_DEPTH} deep")
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
        return Piece(first, last)

    def _sequence(self) -> Piece:
        first = last = self._node(None)
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            part = self._repeated()
            self.exits[last].append(part.first)
            last = part.last
        return Piece(first, last)

    def _repeated(self) -> Piece:
        begin = self._at
        part = self._single()
        end = self._at
        bounds = self._bounds()
        if bounds is None:
            return part
        if self._text[self._at : self._at + 1] in ("*", "+", "{") and self._bounds() is not None:
            raise self.refusal("a repetition is repeated")
        return self._times(part, bounds, begin, end)

    def _bounds(self) -> tuple[int, int | None] | None:
        """Parse a quantifier into its minimum and maximum; None if there is none."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                self._lazy()
                return bounds
        close = self._text.find("}", self._at)
        if self._text[self._at : self._at + 1] != "{" or close < 0:
            return None
        least, comma, most = self._text[self._at + 1 : close].partition(",")
        if not _is_number(least) or (most and not _is_number(most)):
            # Braces that form no quantifier are literal.
            return None
        self._at = close + 1
        self._lazy()
        low = int(least)
        high = (int(most) if most else None) if comma else low
        if max(low, high or 0) > MAX_REPEAT or (high is not None and high < low):
            raise self.refusal(f"a repetition goes from less to more, and to {MAX_REPEAT} at most")
        return low, high

    def _lazy(self) -> None:
        """Skip the mark of a lazy quantifier, which does not change which names match."""
        self._take("?")
        if self._text[self._at : self._at + 1] == "+":
            raise self.refusal("possessive quantifiers (x*+) are not supported")

    def _times(self, part: Piece, bounds: tuple[int, int | None], begin: int, end: int) -> Piece:
        """Build the graph of a repetition; the operand's text is parsed again for every copy."""
        least, most = bounds
        first = last = self._node(None)
        if most == 0:
            return Piece(first, last)
        copies = [part]
        after, needed = self._at, max(least, 1) if most is None else max(most, 1)
        while len(copies) < needed:
            self._at = begin
            copies.append(self._single())
            if self._at != end:
                raise AssertionError("a part of an expression was parsed in two ways")
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
        return Piece(first, final)

    def _single(self) -> Piece:
        """Parse one character, character class, end of the name (``^``, ``$``) or group."""
        sign = self._text[self._at]
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._leaf(self._class())
        if sign == "\\":
            return self._leaf(self._escape())
        if sign in "*+?":
            raise self.refusal(f"there is nothing before {sign} to repeat")
        edges: dict[str, Edge] = {".": _ASCII - {"\n"}, "^": START, "$": END}
        return self._leaf(edges.get(sign, frozenset(sign)))

    def _group(self) -> Piece:
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                name, closed, _ = self._text[self._at :].partition(">")
                if not closed or not name.isidentifier():
                    raise self.refusal("lookahead and lookbehind are not supported")
                self._at += len(name) + 1
            elif not self._take(":"):
                raise self.refusal("flags, lookahead and lookbehind are not supported")
        inner = self._choice()
        if not self._take(")"):
            raise self.refusal("there is a ( without a )")
        return inner

    def _escape(self) -> Edge:
        if self._at == len(self._text):
            raise self.refusal("it ends with a \\")
        sign = self._text[self._at]
        self._at += 1
        if sign == "A":
            return START
        if sign == "z":
            return END
        return self._escaped(sign)

    def _escaped(self, sign: str) -> frozenset[str]:
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign in _CONTROLS:
            return frozenset(_CONTROLS[sign])
        if sign.isalnum():
            raise self.refusal(f"\\{sign} is not supported")
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
                    raise self.refusal("a range of characters goes from less to more")
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
            raise self.refusal("there is a [ without a ]")
        if self._text.startswith(("[:", "[.", "[="), self._at):
            raise self.refusal("named classes such as [:alpha:] are not supported")
        sign = self._text[self._at]
        self._at += 1
        if sign != "\\":
            return frozenset(sign)
        if self._at == len(self._text):
            raise self.refusal("it ends with a \\")
        self._at += 1
        return self._escaped(self._text[self._at - 1])

    def _leaf(self, edge: Edge) -> Piece:
        first, last = self._node(edge), self._node(None)
        self.exits[first].append(last)
        return Piece(first, last)

    def _node(self, edge: Edge) -> int:
        if len(self.edges) >= MAX_NODES:
            raise self.refusal("it is too large; repeat less")
        self.edges.append(edge)
        self.exits.append([])
        return len(self.edges) - 1

    def _take(self, sign: str) -> bool:
        if self._text.startswith(sign, self._at):
            self._at += len(sign)
            return True
        return False

    def refusal(self, reason: str) -> InvalidExpression:
        """Return an InvalidExpression with the expression and this reason."""
        return InvalidExpression(self._text, reason)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
