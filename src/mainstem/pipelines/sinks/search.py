"""A search index of rows: a directory of tantivy, a search library that runs in this process.

How this works: each row is a document with its key, its columns for searching, and the row itself
as JSON. The mark is a document, too, so that a commit of tantivy has both the rows and their mark,
or neither. ``mainstem index search`` and ``search_index`` search such an index.
"""

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec

from mainstem.pipelines.errors import InvalidDefinition, RunRefused, importing
from mainstem.pipelines.sinks.directories import adopt, remove_links
from mainstem.pipelines.sinks.port import Mark, Sink
from mainstem.pipelines.sinks.statements import text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType
    from tantivy import Document, Index

KEY, ROW, MARK, BATCH = "_key", "_row", "_mark", "_batch"
COLUMNS = "mainstem.json"
"""File in the index's directory with its columns."""
_PLACE = "search index "
_HEAP_BYTES = 64 << 20
_SEGMENTS = f"{'[0-9a-f]' * 32}.*"
"""The files that a reader opens after the list of them, ``meta.json``; named at random."""


class IndexColumns(msgspec.Struct, frozen=True):
    """All columns of an index, and those that can be searched."""

    columns: str
    text: tuple[str, ...]


class Hit(msgspec.Struct, frozen=True):
    """A row that was found, and its score: the higher, the better it matches."""

    score: float
    row: dict[str, object]


class SearchSink(msgspec.Struct, frozen=True):
    """A search index; a row replaces the row with the same key."""

    path: str
    key: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """The columns that can be searched; empty: all columns of strings."""

    @property
    def latest(self) -> tuple[str, ...]:
        """Empty: a row of a later batch always replaces the stored one."""
        return ()

    @property
    def place(self) -> str:
        """The directory, for messages."""
        return f"{_PLACE}{self.path}"

    def check(self, columns: "StructType") -> None:
        """Create the index if it does not exist; raise InvalidDefinition if its columns differ."""
        from mainstem.pipelines.sinks.collecting import check_columns  # noqa: PLC0415

        if not self.key:
            raise InvalidDefinition(f"{self.place} needs key=, the columns that identify a row")
        check_columns(columns, (*self.key, *self.text), (), self.place)
        strings = [each.name for each in columns if each.dataType.typeName() == "string"]
        text = self.text or tuple(strings)
        if not text:
            raise InvalidDefinition(f"{self.place}: no column is a string, so nothing can be found")
        wanted = IndexColumns(columns.simpleString()[7:-1], text)
        found = columns_of_index(Path(self.path))
        remove_links(Path(self.path))
        if found is None:
            self._create(wanted)
        elif found != wanted:
            raise InvalidDefinition(
                f"{self.place} has the columns {found.columns} and finds {', '.join(found.text)}, "
                f"but the definition gives {wanted.columns} and {', '.join(text)}; "
                "replay into a new index (--replay --into NAME) and swap"
            )

    def _create(self, wanted: IndexColumns) -> None:
        tantivy = _imported()
        directory = Path(self.path)
        directory.mkdir(parents=True, exist_ok=True)
        schema = tantivy.SchemaBuilder()
        for name in (KEY, MARK):
            schema.add_text_field(name, stored=True, tokenizer_name="raw", index_option="basic")
        schema.add_integer_field(BATCH, stored=True)
        schema.add_bytes_field(ROW, stored=True)
        for name in wanted.text:
            schema.add_text_field(name)
        tantivy.Index(schema.build(), str(directory))
        # Written last, because a directory without this file is created anew.
        draft = directory / f".{COLUMNS}"
        draft.write_bytes(msgspec.json.encode(wanted))
        draft.rename(directory / COLUMNS)

    def write(self, rows: "DataFrame", mark: Mark) -> bool:
        """Commit the rows and the mark together."""
        from mainstem.pipelines.sinks.collecting import collected, split  # noqa: PLC0415

        tantivy = _imported()
        index = tantivy.Index.open(self.path)
        if _written(index, mark) >= mark.batch:
            return False
        found = split(collected(rows, self.key))
        stored, deleted = found.stored.to_pylist(), found.deleted.to_pylist()
        if not stored and not deleted and not mark.replace:
            return True
        try:
            writer = index.writer(_HEAP_BYTES, 1)
        except ValueError as error:
            raise RunRefused(f"{self.place} is being written by another process: {error}") from None
        columns = columns_of_index(Path(self.path))
        assert columns is not None
        # Read again: a driver that is considered dead may have committed before this one got the
        # lock.
        index.reload()
        if _written(index, mark) >= mark.batch:
            return True
        if mark.replace:
            writer.delete_documents_by_query(tantivy.Query.regex_query(index.schema, KEY, ".*"))
        for row in (*stored, *deleted):
            writer.delete_documents_by_term(KEY, self._key_of(row))
        for row in stored:
            writer.add_document(self._document(row, columns.text))
        writer.delete_documents_by_term(MARK, mark.pipeline)
        marked = tantivy.Document()
        marked.add_text(MARK, mark.pipeline)
        marked.add_integer(BATCH, mark.batch)
        writer.add_document(marked)
        writer.commit()
        writer.wait_merging_threads()
        return True

    def _key_of(self, row: dict[str, object]) -> str:
        return text_of([row[name] for name in self.key])

    def _document(self, row: dict[str, object], text: tuple[str, ...]) -> "Document":
        document: Document = _imported().Document()
        document.add_text(KEY, self._key_of(row))
        document.add_bytes(ROW, text_of(row).encode())
        for name in text:
            value = row[name]
            if value is not None:
                document.add_text(name, value if isinstance(value, str) else text_of(value))
        return document

    def read(self) -> "pa.Table | None":
        """Return all rows, with values as JSON has them."""
        import pyarrow as pa  # noqa: PLC0415 - slow to load

        if columns_of_index(Path(self.path)) is None:
            return None
        tantivy = _imported()
        searcher = tantivy.Index.open(self.path).searcher()
        hits = searcher.search(tantivy.Query.all_query(), searcher.num_docs + 1).hits
        documents = [searcher.doc(address) for _, address in hits]
        rows = [_row_of(each) for each in documents if each.get_first(MARK) is None]
        return pa.Table.from_pylist(rows)

    def beside(self, name: str) -> Sink:
        """Return the sink of a copy, an index in a directory next to this one."""
        return msgspec.structs.replace(self, path=f"{self.path}.{name}")

    def swap(self, name: str) -> None:
        """Replace this index by the copy; the old one is kept as ``.before-NAME``."""
        adopt(Path(self.path), name, readers_need=_SEGMENTS)


def search_index(directory: Path, query: str, limit: int) -> list[Hit]:
    """Return the rows that match a query best.

    Raises InvalidDefinition if there is no index, the query is invalid, or tantivy is missing.
    """
    tantivy = _imported()
    columns = columns_of_index(directory)
    if columns is None:
        raise InvalidDefinition(f"{directory} is no search index that a pipeline keeps")
    index = tantivy.Index.open(str(directory))
    try:
        wanted = index.parse_query(query, list(columns.text))
    except ValueError as error:
        raise InvalidDefinition(
            f"the query {query!r:.200} is not understood: {error}; columns that can be searched: "
            f"{', '.join(columns.text)}"
        ) from None
    searcher = index.searcher()
    found = searcher.search(wanted, limit).hits
    return [Hit(float(score or 0), _row_of(searcher.doc(address))) for score, address in found]


def place_of(sink: str) -> Path | None:
    """Return the directory of a search index, given a sink's ``place``; None for other sinks."""
    return Path(sink.removeprefix(_PLACE)) if sink.startswith(_PLACE) else None


def columns_of_index(directory: Path) -> IndexColumns | None:
    """Return the columns of the index in a directory; None if there is no index."""
    file = directory / COLUMNS
    return msgspec.json.decode(file.read_bytes(), type=IndexColumns) if file.exists() else None


def _row_of(document: "Document") -> dict[str, object]:
    row = document.get_first(ROW)
    assert row is not None
    found: dict[str, object] = msgspec.json.decode(bytes(row))
    return found


def _written(index: "Index", mark: Mark) -> int:
    """Return the number of the last batch that the checkpoint of ``mark`` committed; -1 if none."""
    wanted = _imported().Query.term_query(index.schema, MARK, mark.pipeline)
    searcher = index.searcher()
    hits = searcher.search(wanted, 1).hits
    return int(searcher.doc(hits[0][1]).get_first(BATCH) or 0) if hits else -1


def _imported() -> ModuleType:
    with importing("p.search", "the package tantivy", extra="search"):
        import tantivy  # noqa: PLC0415 - an extra
    return tantivy
