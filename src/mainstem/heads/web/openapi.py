"""Builds the parts that the OpenAPI 3.1 documents of all heads have in common."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import msgspec

from mainstem.heads.web.problem import PROBLEM_TYPE, Problem

Schema = dict[str, object]
Place = str
"""Where a parameter of an operation is: ``path``, ``query`` or ``header``."""
JSON_TYPE = "application/json"
_REFERENCE = "#/components/schemas/{name}"
_ERROR: Schema = {
    "description": "An error.",
    "content": {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(name="Problem")}}},
}


def schemas_of(types: Sequence[object]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type, and by name the schemas to which these refer."""
    schemas, components = msgspec.json.schema_components(
        [*cast("list[type]", types), Problem], ref_template=_REFERENCE, schema_hook=_any
    )
    return cast("list[Schema]", list(schemas)[:-1]), cast("dict[str, Schema]", components)


def parameter(
    name: str, place: Place, schema: Schema, *, required: bool = True, description: str = ""
) -> Schema:
    """Return the description of a parameter of an operation."""
    found: Schema = {"name": name, "in": place, "required": required, "schema": schema}
    return found | ({"description": description} if description else {})


def body(content: Mapping[str, Schema], *, required: bool) -> Schema:
    """Return the description of a request body, with a schema per media type."""
    return {"required": required, "content": {kind: {"schema": content[kind]} for kind in content}}


def response(description: str, content: Mapping[str, Schema]) -> Schema:
    """Return the description of a response, with a schema per media type."""
    if not content:
        return {"description": description}
    return {
        "description": description,
        "content": {kind: {"schema": content[kind]} for kind in content},
    }


def operation(
    operation_id: str,
    summary: str,
    tag: str,
    parameters: Iterable[Schema],
    responses: Mapping[str, Schema],
) -> Schema:
    """Return the description of an operation; its errors are problem details."""
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": [tag],
        "parameters": list(parameters),
        "responses": {**responses, "default": _ERROR},
    }


def whole(
    title: str,
    description: str,
    version: str,
    paths: Mapping[str, Schema],
    components: Mapping[str, Schema],
) -> Schema:
    """Return the whole document; login is by HTTP Basic, and optional."""
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
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
