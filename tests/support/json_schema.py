"""Validate a JSON value against a schema, more strictly than JSON Schema does.

It is written from the specification and not from the code that makes the schemas. A field that the
schema does not have is an error, too, so that the document cannot fall behind the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    "$ref",
    "type",
    "title",
    "description",
    "default",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "discriminator",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "properties",
    "required",
    "additionalProperties",
}


def errors(value: Json, schema: Json, document: Json, where: str = "$") -> Iterator[str]:
    """Yield the errors of a value; nothing when it matches the schema."""
    unknown = set(schema) - KNOWN
    if unknown:
        yield f"{where}: the schema has {sorted(unknown)}, which this check does not know"
    if "$ref" in schema:
        yield from errors(value, resolve(schema["$ref"], document), document, where)
        return
    yield from _values(value, schema, document, where)
    wanted = schema.get("type")
    if wanted is None:
        return
    is_bool = isinstance(value, bool)
    if not isinstance(value, TYPES[wanted]) or (is_bool and wanted != "boolean"):
        yield f"{where}: {value!r} is no {wanted}"
        return
    if wanted == "object":
        yield from _object(value, schema, document, where)
    elif wanted == "array":
        yield from _array(value, schema, document, where)


def resolve(reference: str, document: Json) -> Json:
    """Return what a reference points to."""
    found = document
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def _values(value: Json, schema: Json, document: Json, where: str) -> Iterator[str]:
    for name in ("anyOf", "oneOf"):
        if name in schema:
            yield from _choice(value, schema[name], document, where, only_one=name == "oneOf")
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"


def _choice(
    value: Json, choices: list[Json], document: Json, where: str, *, only_one: bool
) -> Iterator[str]:
    found = [list(errors(value, choice, document, where)) for choice in choices]
    fitting = sum(not each for each in found)
    if fitting == 0 or (only_one and fitting > 1):
        nearest = min(found, key=len)
        yield f"{where}: fits {fitting} of the choices; nearest: {nearest[:3]}"


def _object(value: Json, schema: Json, document: Json, where: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}: {name} is missing"
    for name, each in value.items():
        if name in properties:
            yield from errors(each, properties[name], document, f"{where}.{name}")
        elif "additionalProperties" in schema:
            yield from errors(each, schema["additionalProperties"], document, f"{where}.{name}")
        elif properties:
            yield f"{where}: {name} is not in the schema"


def _array(value: Json, schema: Json, document: Json, where: str) -> Iterator[str]:
    first = schema.get("prefixItems", [])
    for index, each in enumerate(value):
        item = first[index] if index < len(first) else schema.get("items")
        if item is False:
            yield f"{where}: more than {len(first)} items"
        elif item:
            yield from errors(each, item, document, f"{where}[{index}]")
