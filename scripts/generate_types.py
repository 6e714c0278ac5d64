"""Write what the front end takes from the Python types: frontend/src/types.ts and glossary.ts.

    python scripts/generate_types.py [--check]

With --check nothing is written and the exit code is 1 if the file is out of date; a test does the
same. The types are those of the API's description (`solscope.web.openapi`), and of the pages that
only reports have.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from generate import ROOT, Files, main

from solscope.pages.bench import BenchPage
from solscope.pages.comparison import ComparisonPage
from solscope.pages.diagnosis import DiagnosisPage
from solscope.pages.profile import ProfilePage
from solscope.pages.ranks import RanksPage
from solscope.pages.single import SinglePage
from solscope.pages.words import TERMS, WORDS
from solscope.web.api import ENDPOINTS
from solscope.web.openapi import openapi

FILE = ROOT / "frontend" / "src" / "types.ts"
GLOSSARY = ROOT / "frontend" / "src" / "glossary.ts"
PAGES: tuple[type[msgspec.Struct], ...] = (
    ProfilePage,
    ComparisonPage,
    RanksPage,
    DiagnosisPage,
    SinglePage,
    BenchPage,
)
"""Pages of a report; the first field of each, `kind`, says which one it is."""
PREFIX = "#/components/schemas/"
HEADER = """// The answers of the JSON API and the pages of reports. Written by `make generated`
// (scripts/generate_types.py) from the Python types: change those.
"""
REPORT = """export interface ReportData {
  solscope: string;
  pages: Page[];
}
"""
"""As `solscope.report.html` writes it."""
PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def files() -> Files:
    """Types, and words that pages explain."""
    return {FILE: render(), GLOSSARY: glossary()}


def glossary() -> str:
    """Words of the library with their meaning, as TypeScript."""
    return (
        "// Words of the library and what they mean; one that ends in a point or colon stands for\n"
        "// all that begin with it. Written by `make generated` from `solscope.pages.words`.\n"
        f"export const WORDS: Record<string, string> = {_record(WORDS)};\n\n"
        "// Terms that stand inside labels and sentences.\n"
        f"export const TERMS: Record<string, string> = {_record(TERMS)};\n"
    )


def _record(words: Mapping[str, str]) -> str:
    rows = (
        f"  {json.dumps(word, ensure_ascii=False)}: {json.dumps(text, ensure_ascii=False)},\n"
        for word, text in words.items()
    )
    return f"{{\n{''.join(rows)}}}"


def render() -> str:
    """The text of the file."""
    _, pages = msgspec.json.schema_components(PAGES, ref_template=PREFIX + "{name}")
    schemas = {**pages, **openapi(ENDPOINTS, takes_uploads=True)["components"]["schemas"]}
    types = {type_name(name): schema for name, schema in schemas.items()}
    if len(types) < len(schemas):
        raise SystemExit("two structs have the same name in TypeScript: extend `type_name`")
    blocks = [_declaration(name, types[name]) for name in sorted(types)]
    kinds = " | ".join(page.__name__ for page in PAGES)
    blocks.append(f"/** A page of a report. */\nexport type Page = {kinds};\n")
    blocks.append("/** What a report carries. */\n" + REPORT)
    return "\n".join([HEADER, *blocks])


def type_name(name: str) -> str:
    """A name in TypeScript.

    Structs that share a name come with their module: `solscope.a.two_samples.Comparison` is
    `TwoSamplesComparison`.
    """
    words = re.split(r"[._]", ".".join(name.split(".")[-2:]))
    return "".join(word[:1].upper() + word[1:] for word in words)


def _declaration(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    # Fields with a default are not `required` in the schema, yet the server always writes them.
    fields = [f"  {_field(key)}: {_type(value)};\n" for key, value in schema["properties"].items()]
    return f"export interface {name} {{\n{''.join(fields)}}}\n"


def _field(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else json.dumps(name)


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return type_name(schema["$ref"].removeprefix(PREFIX))
    if "anyOf" in schema:
        return " | ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        return _array(schema)
    if kind == "object":
        return f"Record<string, {_type(schema.get('additionalProperties') or {})}>"
    return "unknown" if kind is None else PLAIN[kind]


def _array(schema: dict[str, Any]) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(map(_type, schema['prefixItems']))}]"
    items = _type(schema.get("items") or {})
    return f"({items})[]" if " | " in items else f"{items}[]"


if __name__ == "__main__":
    sys.exit(main([files]))
