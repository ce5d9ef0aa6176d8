"""The OpenAPI 3.1 document of the HTTP head."""

import functools
from http import HTTPStatus
from typing import cast

import msgspec

from mainstem import __version__
from mainstem.heads.http.api.operations import OPERATIONS, Content, Operation
from mainstem.heads.http.api.parameters import Parameter
from mainstem.heads.web import openapi
from mainstem.heads.web.openapi import Schema

PATH = "/openapi.json"
_DESCRIPTION = """\
Publish and read events, follow topics, share them by queues. WebSockets are at /ws. Errors are \
problem+json, with the class of failure."""


@functools.cache
def encoded() -> bytes:
    """Return the OpenAPI document as JSON; it is made once."""
    return msgspec.json.encode(document())


def document() -> Schema:
    """Return the OpenAPI document as a JSON value."""
    types: dict[object, None] = {}
    for each in OPERATIONS:
        for content in (each.body, *each.answers.values()):
            types.update({kind: None for kind in content.values() if not isinstance(kind, dict)})
    schemas, components = openapi.schemas_of(list(types))
    by_type = dict(zip(types, schemas, strict=True))

    def shown(content: Content) -> dict[str, Schema]:
        return {
            kind: cast(Schema, said) if isinstance(said, dict) else by_type[said]
            for kind, said in content.items()
        }

    paths: dict[str, Schema] = {}
    for each in OPERATIONS:
        responses = {
            str(status): openapi.response(f"{HTTPStatus(status).phrase}.", shown(content))
            for status, content in each.answers.items()
        }
        found = openapi.operation(
            each.endpoint.__name__ + "_" + each.tag.replace(" ", "_"),
            each.summary,
            each.tag,
            _parameters(each),
            responses,
        )
        if each.body:
            found["requestBody"] = openapi.body(shown(each.body), required=each.needs_body)
        paths.setdefault(each.path, {})[each.method.lower()] = found
    return openapi.whole("mainstem HTTP API", _DESCRIPTION, __version__, paths, components)


def _parameters(operation: Operation) -> list[Schema]:
    return [_parameter(each) for each in (*operation.path_parameters, *operation.parameters)]


def _parameter(said: Parameter) -> Schema:
    return openapi.parameter(
        said.name,
        said.place,
        said.schema,
        required=said.place == "path",
        description=said.description,
    )
