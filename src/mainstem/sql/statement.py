"""Finds what a query refers to, in the syntax tree that DuckDB makes of it.

How this works: DuckDB returns the tree of a SELECT as JSON, and refuses other statements. Names of
columns are not resolved here: every text in the tree counts as a name that the query may use, so
that a column may be read needlessly, but is never missing.
"""

from collections.abc import Collection, Iterator

from mainstem.sql.errors import InvalidQuery
from mainstem.sql.worker_messages import Parsed

Node = dict[str, object]

TABLE_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row"}
)
"""The table functions that a query may use; none of them reads anything but its arguments."""
DENIED = frozenset(
    {
        *(
            "current_setting",
            "getvariable",
            "write_log",
            "nextval",
            "currval",
            "setval",
            "sleep_ms",
        ),
        *("getenv", "current_query", "json_serialize_plan", "parse_duckdb_log_message"),
        *("add_parquet_key", "in_search_path", "query", "query_table"),
    }
)
"""Functions that read or change the process, or its settings."""
_NODES = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE", "BOUND_SUBQUERY_NODE"}
)
_NOT_ROW_BY_ROW = frozenset({"WINDOW", "SUBQUERY"})


def parsed(tree: Node, aggregates: Collection[str]) -> Parsed:
    """Return what a syntax tree refers to; raises InvalidQuery unless it is one allowed SELECT."""
    if tree.get("error"):
        raise InvalidQuery(_refusal(str(tree.get("error_message"))))
    statements = _list(tree.get("statements"))
    if len(statements) != 1:
        raise InvalidQuery(f"{len(statements)} statements: give one SELECT")
    top = _node(_node(statements[0])["node"])
    _check(top)
    tables = [*dict.fromkeys(_tables(top, frozenset()))]
    return Parsed(
        tables=[list(path) for path in tables],
        words=sorted({text.lower() for text in _texts(top)}),
        star=_uses_all_columns(top, {path[-1].lower() for path in tables}),
        dotted=sorted(set(_dotted(top))),
        appends=_appends(top, aggregates),
    )


def _refusal(said: str) -> str:
    if said.startswith("Only SELECT"):
        return "only SELECT (also WITH, VALUES, FROM, DESCRIBE): a query changes nothing"
    hint = ""
    if "syntax error" in said:
        hint = '; quote names with dashes and other signs: select * from "my-topic"'
    return f"{said}{hint}"


def _check(top: Node) -> None:
    """Raise InvalidQuery for statements and functions that queries must not use."""
    for each in _nodes(top):
        kind = each.get("type")
        if isinstance(kind, str) and kind.endswith("_NODE") and kind not in _NODES:
            raise InvalidQuery("only SELECT, also inside WITH: a query changes nothing")
        if kind == "SHOW_REF" and each.get("query") is None:
            raise InvalidQuery("SHOW is not supported; mainstem topic ls lists topics")
        if each.get("class") == "FUNCTION" or kind == "FUNCTION":
            name = _function(each)
            if name in DENIED:
                raise InvalidQuery(f"function {name} is not available to queries")
        if kind == "TABLE_FUNCTION":
            name = _function(_node(each["function"]))
            if name not in TABLE_FUNCTIONS:
                raise InvalidQuery(
                    f"function {name} is not available to queries: they read topics and the given "
                    "tables, no files, addresses or settings"
                )


def _function(each: Node) -> str:
    return str(each.get("function_name")).lower()


def _tables(node: Node, known: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of tables that a node reads, except those that WITH defines."""
    for name, inner, recursive in _defined(node):
        yield from _tables(inner, known | {name} if recursive else known)
        known |= {name}
    if node.get("type") == "RECURSIVE_CTE_NODE":
        known |= {str(node.get("cte_name")).lower()}
    if node.get("type") == "BASE_TABLE":
        path = tuple(str(part) for part in _list(_node(node["qualified_name"])["path"]))
        if len(path) > 1 or path[0].lower() not in known:
            yield path
    for key, value in node.items():
        if key != "cte_map":
            for each in _children(value):
                yield from _tables(each, known)


def _defined(node: Node) -> Iterator[tuple[str, Node, bool]]:
    """Yield what WITH defines at a node: name, query, and whether it is recursive."""
    found = node.get("cte_map")
    if isinstance(found, dict):
        for each in _list(found.get("map")):
            entry = _node(each)
            inner = _node(_node(entry["value"])["query_node"])
            yield str(entry["key"]).lower(), inner, inner.get("type") == "RECURSIVE_CTE_NODE"


def _uses_all_columns(top: Node, tables: set[str]) -> bool:
    names = set(tables)
    for each in _nodes(top):
        if each.get("type") == "BASE_TABLE" and each.get("alias"):
            names.add(str(each["alias"]).lower())
    for each in _nodes(top):
        if each.get("class") == "STAR" or each.get("ref_type") == "NATURAL":
            return True
        # The name of a table alone is an expression for its whole row.
        if each.get("class") == "COLUMN_REF" and _parts(each)[-1] in names:
            return True
    return False


def _dotted(top: Node) -> Iterator[str]:
    for each in _nodes(top):
        if each.get("class") == "COLUMN_REF":
            yield from _parts(each)[:-1]


def _appends(top: Node, aggregates: Collection[str]) -> bool:
    source = _node(top.get("from_table") or {})
    plain = (
        top.get("type") == "SELECT_NODE"
        and source.get("type") == "BASE_TABLE"
        and not any(top.get(each) for each in ("modifiers", "group_expressions", "group_sets"))
        and not any(top.get(each) for each in ("having", "qualify", "sample"))
        and not source.get("sample")
        and not list(_defined(top))
    )
    return plain and not any(
        each.get("class") in _NOT_ROW_BY_ROW
        or (each.get("class") == "FUNCTION" and _function(each) in aggregates)
        for each in _nodes(top)
    )


def _parts(reference: Node) -> list[str]:
    return [str(part).lower() for part in _list(reference["column_names"])]


def _nodes(value: object) -> Iterator[Node]:
    """Yield all nodes of a tree, from its root on."""
    for each in _children(value):
        yield each
        for inner in each.values():
            yield from _nodes(inner)


def _children(value: object) -> Iterator[Node]:
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _children(each)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _node(value: object) -> Node:
    if not isinstance(value, dict):
        raise InvalidQuery("the query cannot be read: its syntax tree has an unknown form")
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidQuery("the query cannot be read: its syntax tree has an unknown form")
    return value
