"""Histories without any anomaly, as a perfect log would give them to perfect clients."""

from collections import defaultdict
from random import Random

from tests.checker.history import History, Outcome, Place, Read, Recorder, Sent

INPUTS: list[Place] = [("in", 0), ("in", 1)]
OUTPUTS: list[Place] = [("out", 0), ("out", 1)]


class Ideal:
    """A log of committed events, and clients that use it one at a time."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._recorder = Recorder()
        self._ends: defaultdict[Place, int] = defaultdict(int)
        self._logs: defaultdict[Place, list[tuple[int, str]]] = defaultdict(list)
        self._positions: defaultdict[tuple[str, Place], int] = defaultdict(int)
        self._sent = 0

    def live(self, deeds: int) -> History:
        """Let clients do so much, and somebody read everything at the end."""
        for _ in range(deeds):
            name = str(self._rng.randrange(3))
            match self._rng.choice(("send", "send", "work", "poll", "seek")):
                case "send":
                    self._transact(f"sender {name}", [], INPUTS)
                case "work":
                    place = self._rng.choice(INPUTS)
                    taken = self._poll("works", place, 3)
                    self._transact("worker", taken, OUTPUTS, group="works")
                case "poll":
                    place = self._rng.choice(INPUTS + OUTPUTS)
                    read = self._poll(f"reader {name}", place, 4)
                    self._recorder.add(f"reader {name}", Outcome.OK, read)
                case "seek":
                    place = self._rng.choice(INPUTS + OUTPUTS)
                    self._positions[f"reader {name}", place] = self._rng.randint(0, 5)
                    self._recorder.moved(f"reader {name}", [place])
        for place in INPUTS + OUTPUTS:
            self._recorder.add("last", Outcome.OK, self._poll("last", place, 10**9))
        return self._recorder.history

    def _transact(
        self, process: str, taken: list[Read], places: list[Place], group: str = ""
    ) -> None:
        began = self._recorder.moment()
        outcome = self._rng.choice([*Outcome, Outcome.OK])
        commits = self._rng.random() < 0.5 if outcome is Outcome.UNKNOWN else outcome == "ok"
        sent: list[Sent] = []
        # A worker sends something for all that it has read, or else nobody knew whether it has.
        for _ in range(self._rng.randint(1, 4)):
            place = self._rng.choice(places)
            self._sent += 1
            sent.append(Sent(place, f"{self._sent}", self._ends[place]))
            if commits:
                self._logs[place].append((self._ends[place], f"{self._sent}"))
            self._ends[place] += 1
        for place in {each.place for each in sent}:
            # The marker.
            self._ends[place] += 1
        self._recorder.add(process, outcome, [*taken, *sent], began, group)
        if group and not commits:
            for read in reversed(taken):
                self._positions[group, read.place] = read.offset
            self._recorder.moved(process, [read.place for read in taken])

    def _poll(self, reader: str, place: Place, most: int) -> list[Read]:
        position = self._positions[reader, place]
        found = [(offset, value) for offset, value in self._logs[place] if offset >= position]
        read = [Read(place, value, offset) for offset, value in found[:most]]
        if read:
            self._positions[reader, place] = read[-1].offset + 1
        return read
