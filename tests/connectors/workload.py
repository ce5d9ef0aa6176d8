"""The tables of random transactions in PostgreSQL, and the changes of their columns."""

from tests.connectors.database import Database

TABLE = """
CREATE TABLE {name} (id int PRIMARY KEY, v int NOT NULL, note text, big text);
ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL
"""
SCHEMAS = (
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS extra int",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS extra",
    "ALTER TABLE {t} ALTER note TYPE varchar(100)",
    "ALTER TABLE {t} ALTER note TYPE text",
)


def create(database: Database, *names: str) -> None:
    """Create the tables."""
    for name in names:
        database.execute(*TABLE.format(name=name).split(";"))
