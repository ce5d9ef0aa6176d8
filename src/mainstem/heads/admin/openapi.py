"""The OpenAPI 3.1 document of the operations that are offered."""

from collections.abc import Iterable
from typing import cast

import msgspec

from mainstem.heads.admin_operations import Administration, Operation
from mainstem.heads.web.problem import PROBLEM_TYPE, Problem

Schema = dict[str, object]
_REFERENCE = "#/components/schemas/{name}"
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


def document(administration: Administration, prefix: str, version: str) -> Schema:
    """Return the document; ``prefix`` precedes all paths."""
    operations = list(administration)
    types = [each.arguments for each in operations] + [_answer(each) for each in operations]
    schemas, components = msgspec.json.schema_components(
        [*types, Problem], ref_template=_REFERENCE, schema_hook=_any
    )
    paths: dict[str, Schema] = {}
    for at, operation in enumerate(operations):
        arguments = _resolved(cast(Schema, schemas[at]), components)
        answer = cast(Schema, schemas[len(operations) + at])
        path = prefix + "/".join(operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(
            operation, arguments, answer
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mainstem admin API",
            "version": version,
            "description": "Everything that the command line does. Errors are problem+json.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
        "security": [{}, {"basic": []}],
    }


def _any(_: type) -> Schema:
    """Return the schema of ``object``: any value."""
    return {"description": "Any JSON value."}


def _answer(operation: Operation) -> type:
    return cast(type, type(None) if operation.answer is None else operation.answer)


def _resolved(schema: Schema, components: dict[str, object]) -> Schema:
    reference = cast(str, schema["$ref"])
    return cast(Schema, components[reference.rpartition("/")[2]])


def _operation(operation: Operation, arguments: Schema, answer: Schema) -> Schema:
    properties = cast("dict[str, Schema]", arguments.get("properties", {}))
    required = set(cast("Iterable[str]", arguments.get("required", ())))
    in_path = operation.path_arguments
    rest = {name: schema for name, schema in properties.items() if name not in in_path}
    found: Schema = {
        "operationId": operation.name.replace("/", "_").replace("-", "_"),
        "summary": operation.summary,
        "tags": [operation.path[0]],
        "parameters": [_parameter(name, "path", properties[name]) for name in sorted(in_path)],
        "responses": {
            **_response(operation, answer),
            "default": {
                "description": "An error.",
                "content": {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
            },
        },
    }
    if operation.method in _WITH_BODY:
        if rest:
            found["requestBody"] = _body(rest, required & rest.keys())
    else:
        cast("list[Schema]", found["parameters"]).extend(
            _parameter(name, "query", schema, required=name in required)
            for name, schema in rest.items()
        )
    return found


def _parameter(name: str, place: str, schema: Schema, *, required: bool = True) -> Schema:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _body(properties: dict[str, Schema], required: set[str]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}


def _response(operation: Operation, answer: Schema) -> Schema:
    if operation.answer is None:
        return {"204": {"description": "Done."}}
    return {"200": {"description": "Done.", "content": {"application/json": {"schema": answer}}}}
