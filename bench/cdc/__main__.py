"""Measures change capture from PostgreSQL and MariaDB beside Debezium's engine.

    python -m bench.cdc --rounds 3               nine minutes; writes docs/benchmarks/cdc.md
    python -m bench.cdc --quick                  prints, and writes nothing
    python -m bench.cdc --quick --only MariaDB   one database

How this works: both take turns on one server, each with a table of its own. A round starts the
process, lets it read the rows that exist already, then follow inserts of a thousand rows each that
were made while it was stopped, then single commits one after the other. Ours is ``mainstem serve``
with a connector; Debezium's engine passes records to a program in its own process that drops them.
Its jars are those of ``.ci/run``.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from bench.cdc.databases import Measured, MeasuredMariaDb, MeasuredPostgres
from bench.cdc.page import page
from bench.cdc.systems import OURS, SYSTEMS, Figures, Plan
from bench.kafka.systems import ROOT
from tests.connectors.database import database
from tests.connectors.mariadb.databases import mariadb

from mainstem.cli.benchmarks.report import machine

PAGE = ROOT / "docs" / "benchmarks" / "cdc.md"


@contextmanager
def _postgres() -> Iterator[Measured]:
    with database() as db:
        yield MeasuredPostgres(db)


@contextmanager
def _mariadb() -> Iterator[Measured]:
    with mariadb() as db:
        yield MeasuredMariaDb(db)


DATABASES: Mapping[str, Callable[[], AbstractContextManager[Measured]]] = {
    "PostgreSQL": _postgres,
    "MariaDB": _mariadb,
}


def measured(db: Measured, plan: Plan, rounds: int) -> dict[str, list[Figures]]:
    """Let both take turns, each first in every other round."""
    found: dict[str, list[Figures]] = {each: [] for each in SYSTEMS}
    for number in range(rounds):
        order = list(SYSTEMS) if number % 2 == 0 else list(reversed(SYSTEMS))
        for system in order:
            name = f"{'a' if system == OURS else 'b'}{number}"
            db.make(name, plan.rows)
            found[system].append(SYSTEMS[system](db, name, plan))
            print(db.name, system, found[system][-1], flush=True)
            db.clear(name)
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=DATABASES)
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    plan = Plan(20_000, 50) if given.quick else Plan(200_000, 400)
    found = {}
    for name in [given.only] if given.only else DATABASES:
        with DATABASES[name]() as db:
            found[name] = measured(db, plan, rounds)
    text = page(found, plan, f"python -m bench.cdc --rounds {rounds}", machine())
    print(text)
    if not given.quick and not given.only:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
