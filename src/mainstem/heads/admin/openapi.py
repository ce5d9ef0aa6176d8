"""The OpenAPI 3.1 document of all registered operations."""

from collections.abc import Iterable, Mapping
from typing import cast

from mainstem.heads.admin_operations import Administration, Operation
from mainstem.heads.web import openapi
from mainstem.heads.web.openapi import JSON_TYPE, Schema

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


def document(administration: Administration, prefix: str, version: str) -> Schema:
    """Return the document; ``prefix`` precedes all paths."""
    operations = list(administration)
    types = [each.arguments for each in operations] + [_answer(each) for each in operations]
    schemas, components = openapi.schemas_of(types)
    paths: dict[str, Schema] = {}
    for at, operation in enumerate(operations):
        arguments = _resolved(schemas[at], components)
        path = prefix + "/".join(operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(
            operation, arguments, schemas[len(operations) + at]
        )
    description = "Everything that the command line does. Errors are problem+json."
    return openapi.whole("mainstem admin API", description, version, paths, components)


def _answer(operation: Operation) -> type:
    return cast(type, type(None) if operation.answer is None else operation.answer)


def _resolved(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    reference = cast(str, schema["$ref"])
    return components[reference.rpartition("/")[2]]


def _operation(operation: Operation, arguments: Schema, answer: Schema) -> Schema:
    properties = cast("dict[str, Schema]", arguments.get("properties", {}))
    required = set(cast("Iterable[str]", arguments.get("required", ())))
    in_path = operation.path_arguments
    rest = {name: schema for name, schema in properties.items() if name not in in_path}
    has_body = operation.method in _WITH_BODY
    parameters = [openapi.parameter(name, "path", properties[name]) for name in sorted(in_path)]
    if not has_body:
        parameters += [
            openapi.parameter(name, "query", schema, required=name in required)
            for name, schema in rest.items()
        ]
    found = openapi.operation(
        operation.name.replace("/", "_").replace("-", "_"),
        operation.summary,
        operation.path[0],
        parameters,
        _response(operation, answer),
    )
    if has_body and rest:
        found["requestBody"] = _body(rest, required & rest.keys())
    return found


def _body(properties: dict[str, Schema], required: set[str]) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": False,
    }
    return openapi.body({JSON_TYPE: schema}, required=bool(required))


def _response(operation: Operation, answer: Schema) -> dict[str, Schema]:
    if operation.answer is None:
        return {"204": openapi.response("Done.", {})}
    return {"200": openapi.response("Done.", {JSON_TYPE: answer})}
