"""The OpenAPI description of the JSON API, made from the list of endpoints and their types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from solscope._version import __version__
from solscope.web.api import Endpoint


def openapi(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    schemas, components = msgspec.json.schema_components(
        [endpoint.answer for endpoint in endpoints], ref_template="#/components/schemas/{name}"
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "solscope", "version": __version__},
        "paths": {
            endpoint.path: {"get": _operation(endpoint, schema)}
            for endpoint, schema in zip(endpoints, schemas, strict=True)
        },
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
    text = {"type": "string"}
    in_path = re.findall(r"\{(\w+)\}", endpoint.path)
    parameters = [
        *({"name": n, "in": "path", "required": True, "schema": text} for n in in_path),
        *(
            {"name": n, "in": "query", "required": n in endpoint.files, "schema": text}
            for n in endpoint.parameters
        ),
    ]
    refused = {
        "description": "The question cannot be answered; `error` says why.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    return {
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": endpoint.summary,
                "content": {"application/json": {"schema": schema}},
            },
            "404": refused,
            "422": refused,
        },
    }
