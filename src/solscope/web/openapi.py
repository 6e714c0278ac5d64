"""The OpenAPI description of the JSON API, made from the list of endpoints and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from solscope._version import __version__
from solscope.web.api import Endpoint
from solscope.web.models import ModelEntry
from solscope.web.upload import Uploaded

_ERROR = {"$ref": "#/components/schemas/Error"}


def _response(
    description: str, schema: dict[str, Any], media: str = "application/json"
) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}


def _refusal(description: str) -> dict[str, Any]:
    return _response(description, {"type": "string"}, "text/plain")


_TO_ALL = {
    "303": {"description": "The token came in the address: ask again, with the cookie set here."},
    "401": _refusal("The server asks for a token, and there is none or a wrong one."),
    "421": _refusal("The request names a host that is not this server."),
    "500": _response("Unexpected error; the server's terminal shows the details.", _ERROR),
}
"""What any question may be answered; the guard refuses in plain text."""


def openapi(endpoints: Sequence[Endpoint], takes_uploads: bool = False) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    (uploaded, model, *schemas), components = msgspec.json.schema_components(
        [Uploaded, ModelEntry, *(endpoint.answer for endpoint in endpoints)],
        ref_template="#/components/schemas/{name}",
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "solscope", "version": __version__},
        "paths": {
            endpoint.path: {"get": _operation(endpoint, schema)}
            for endpoint, schema in zip(endpoints, schemas, strict=True)
        }
        | {"/api/model": {"post": _model(model)}}
        | ({"/api/upload": {"post": _upload(uploaded)}} if takes_uploads else {}),
        "components": {
            "schemas": {
                **components,
                "Error": {
                    "type": "object",
                    "properties": {"error": {"type": "string"}},
                    "required": ["error"],
                },
            }
        },
    }


def _operation(endpoint: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    in_path = re.findall(r"\{(\w+)\}", endpoint.path)
    parameters = [
        *(_parameter(name, "path", True) for name in in_path),
        *(
            _parameter(name, "query", name in (*endpoint.files, *endpoint.needs))
            for name in endpoint.parameters
        ),
    ]
    refused = _response("The question cannot be answered; `error` says why.", _ERROR)
    return {
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": _response(endpoint.summary, schema),
            "404": refused,
            "422": refused,
            **_TO_ALL,
        },
    }


def _upload(schema: dict[str, Any]) -> dict[str, Any]:
    store = _parameter("store", "query", False) | {"description": "1: into the store as well."}
    operation = _posted("Take a profile", [store])
    operation["responses"] |= {
        "201": _response("The profile that was taken", schema),
        "422": _response("Not a profile, or already present.", _ERROR),
        "507": _response("It cannot be kept: no space, or no folder.", _ERROR),
    }
    return operation


def _model(schema: dict[str, Any]) -> dict[str, Any]:
    operation = _posted("Take a model's config, for `model` of a profile; held in memory only", [])
    operation["responses"] |= {
        "201": _response("The config that was taken", schema),
        "422": _response("Not a model's config.", _ERROR),
    }
    return operation


def _posted(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    """A question whose body is a file."""
    return {
        "summary": summary,
        "parameters": [
            _parameter("name", "query", True),
            *parameters,
            _parameter("X-Solscope", "header", True) | {"description": "Anything."},
        ],
        "requestBody": {"required": True, "content": {"application/octet-stream": {}}},
        "responses": {
            "400": _response("It was broken off.", _ERROR),
            "403": _refusal("A page of another site asks, or X-Solscope is missing."),
            "413": _response("It is too large.", _ERROR),
            **_TO_ALL,
        },
    }


def _parameter(name: str, place: str, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"}}
