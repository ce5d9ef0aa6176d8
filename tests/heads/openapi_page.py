"""What tests of OpenAPI documents share: calls of every operation, and reference pages."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings, strategies
from schemathesis import checks
from schemathesis.core.result import Ok
from tests.long_runs import LONG

MORE = 50


def call_every_operation(
    address: str, examples: int, there: Mapping[str, str] = {}
) -> dict[str, Counter[int]]:
    """Call each operation of the document at an address with made-up arguments, and not one less.

    Every answer must be as the document says. Returns the statuses of the answers, by operation.
    ``examples``: how many of each operation; with ``--long`` ``MORE`` times as many. ``there``:
    path parameters that name what is there, instead of those made up, now and then.
    """
    schema = schemathesis.openapi.from_url(address)
    called: dict[str, Counter[int]] = {}
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()
        called[operation.label] = _call(operation, examples * (MORE if LONG else 1), there)
    assert called.keys() == operations(schema.raw_schema)
    assert all(each.total() > 0 for each in called.values())
    return called


def operations(document: Mapping[str, Any]) -> set[str]:
    """Return the methods and addresses of a document."""
    return {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }


def _call(operation: Any, examples: int, there: Mapping[str, str]) -> Counter[int]:
    statuses: Counter[int] = Counter()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), is_there=strategies.booleans())
    def call(case: Any, is_there: bool) -> None:
        if is_there:
            chosen = {name: there[name] for name in case.path_parameters if name in there}
            case.path_parameters = {**case.path_parameters, **chosen}
        answer = case.call()
        statuses[answer.status_code] += 1
        case.validate_response(answer, excluded_checks=[checks.positive_data_acceptance])

    call()
    return statuses


def page(introduction: str, document: dict[str, Any]) -> str:
    """Return the reference page for an OpenAPI document."""
    rows: list[str] = []
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            arguments = [
                _argument(
                    each["name"],
                    {"description": each.get("description", "")} | each["schema"],
                    required=each["required"],
                )
                for each in operation["parameters"]
                if each["in"] != "path"
            ]
            arguments += _body(document, operation.get("requestBody", {}).get("content", {}))
            row = (
                f"| `{method.upper()} {path}` | {operation['summary']} | {'<br>'.join(arguments)} |"
            )
            tags.setdefault(operation["tags"][0], []).append(row)
    for tag, found in tags.items():
        rows += [f"\n## {tag}\n", "| address | does | arguments |", "|---|---|---|", *found]
    return introduction + "\n".join(rows) + "\n"


def _body(document: dict[str, Any], content: dict[str, Any]) -> list[str]:
    """Return the fields of a JSON body; the media types if there are several."""
    if len(content) > 1:
        return ["body: " + ", ".join(f"`{each}`" for each in content)]
    schema = content.get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return [
        _argument(name, each, required=name in schema["required"])
        for name, each in schema.get("properties", {}).items()
    ]


def _argument(name: str, schema: dict[str, Any], *, required: bool) -> str:
    said = schema.get("description", "")
    default = schema.get("default")
    extra = (
        " (required)"
        if required
        else ""
        if default in (None, "", {})
        else f" (`{json.dumps(default)}`)"
    )
    return f"`{name}`{extra}{': ' if said else ''}{said}"
