"""A made-up stock market, as binary messages of an order book, similar to those of Nasdaq's ITCH.

All numbers are big-endian. A trade has its stock and price, so price bars need no order book:

| message | fields |
|---|---|
| add | ``A``, time (µs since 1970), order, ``B`` or ``S``, shares, stock, price (1/10,000) |
| execute | ``E``, time, order, shares, stock, price |
| cancel | ``X``, time, order, shares |
"""

import random
import struct
from collections.abc import Iterator

import msgspec

ADD, EXECUTE, CANCEL = (struct.Struct(each) for each in (">cQQcI8sI", ">cQQI8sI", ">cQQI"))
_STOCKS = {"BIRCH": 41_2500, "LINDEN": 12_0800, "MAPLE": 230_1000}
_MOST_OPEN = 500


class _Order(msgspec.Struct):
    """An order in the book."""

    stock: bytes
    price: int
    shares: int


class Market:
    """Random orders, trades and cancellations, at prices that change randomly."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._prices = {f"{name:<8}".encode(): price for name, price in _STOCKS.items()}
        self._open: dict[int, _Order] = {}
        self._orders = 0

    def messages(self, now_us: int, count: int) -> Iterator[bytes]:
        """Yield ``count`` messages with the time ``now_us``."""
        for _ in range(count):
            turn = self._chance.random()
            if len(self._open) < 10 or (turn < 0.5 and len(self._open) < _MOST_OPEN):
                yield self._add(now_us)
            else:
                yield self._fill(now_us, is_trade=turn < 0.85)

    def _add(self, now_us: int) -> bytes:
        stock = self._chance.choice(list(self._prices))
        self._prices[stock] = max(100, round(self._prices[stock] * self._chance.gauss(1, 0.0004)))
        side = self._chance.choice((b"B", b"S"))
        price = round(self._prices[stock] * self._chance.gauss(1, 0.0005))
        self._orders += 1
        order = self._open[self._orders] = _Order(stock, price, 100 * self._chance.randint(1, 9))
        return ADD.pack(b"A", now_us, self._orders, side, order.shares, stock, price)

    def _fill(self, now_us: int, *, is_trade: bool) -> bytes:
        """Return a message that trades or cancels an order, or a part of it."""
        number = self._chance.choice(list(self._open))
        order = self._open[number]
        shares = 100 * self._chance.randint(1, order.shares // 100)
        order.shares -= shares
        if not order.shares:
            del self._open[number]
        if is_trade:
            return EXECUTE.pack(b"E", now_us, number, shares, order.stock, order.price)
        return CANCEL.pack(b"X", now_us, number, shares)


def described(message: bytes) -> str:
    """Return a message as text."""
    match message[:1]:
        case b"A":
            _, _, order, side, shares, stock, price = ADD.unpack(message)
            word = "buy" if side == b"B" else "sell"
            text = f"add      {word:<4} {shares:>4} {_stock(stock)} at {price / 10_000:.4f}"
        case b"E":
            _, _, order, shares, stock, price = EXECUTE.unpack(message)
            text = f"execute       {shares:>4} {_stock(stock)} at {price / 10_000:.4f}"
        case _:
            _, _, order, shares = CANCEL.unpack(message)
            text = f"cancel        {shares:>4}"
    return f"{text}   (order {order})"


def _stock(name: bytes) -> str:
    return name.decode().strip()
