"""Makes field tables of Kafka's messages and metadata records from the JSON files inside its jars.

Only what the observer sends, receives or may decode is taken, in the versions that it uses. A
metadata record that may hold a secret (SCRAM credentials, tokens, ACLs, quotas) is not in the list, so no
code exists that could decode it.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kraft_source.wire.schema import ANY_VERSION, Field, Message

TARGET = Path(__file__).resolve().parents[2] / "kraft_source" / "wire" / "schemas.py"

Definition = Mapping[str, Any]

REQUESTS = {
    "ApiVersions": (3, 3),
    "SaslHandshake": (1, 1),
    "SaslAuthenticate": (2, 2),
    "Fetch": (16, 18),
    "FetchSnapshot": (0, 0),
    "DescribeQuorum": (1, 2),
    "DescribeCluster": (1, 1),
}
"""The versions that the observer sends. Fetch 16 is the first whose answers name the leader's address."""
MESSAGES = {
    "RequestHeader": (1, 2),
    "ResponseHeader": (0, 1),
    **{name + half: its for name, its in REQUESTS.items() for half in ("Request", "Response")},
}
CONTROL_RECORDS = {
    2: "LeaderChangeMessage",
    3: "SnapshotHeaderRecord",
    4: "SnapshotFooterRecord",
    5: "KRaftVersionRecord",
    6: "VotersRecord",
}
"""Control records of the metadata log by their number in `ControlRecordType`."""
METADATA_RECORDS = (
    "RegisterBrokerRecord",
    "UnregisterBrokerRecord",
    "TopicRecord",
    "PartitionRecord",
    "ConfigRecord",
    "PartitionChangeRecord",
    "FenceBrokerRecord",
    "UnfenceBrokerRecord",
    "RemoveTopicRecord",
    "FeatureLevelRecord",
    "BrokerRegistrationChangeRecord",
    "NoOpRecord",
    "ZkMigrationStateRecord",
    "BeginTransactionRecord",
    "EndTransactionRecord",
    "AbortTransactionRecord",
    "RegisterControllerRecord",
    "ClearElrRecord",
    "UnregisterControllerRecord",
)
"""The metadata records that may be decoded: those that hold no secret."""

_COMMENT = re.compile(r'^\s*//.*$|//[^"\n]*$', re.MULTILINE)
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def read_definitions(jars: Iterable[Path]) -> dict[str, Definition]:
    """Return every definition in the jars by its name."""
    found = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.startswith("common/") and name.endswith(".json"):
                    text = _COMMENT.sub("", opened.read(name).decode())
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


def messages(definitions: Mapping[str, Definition]) -> dict[str, Message]:
    """Return the tables of all requests, responses and headers that a release defines in our versions."""
    return {name: message(definitions[name], *its) for name, its in MESSAGES.items()}


def records(definitions: Mapping[str, Definition]) -> dict[str, Message]:
    """Return the tables of the control records and the metadata records that a release defines."""
    names = (*CONTROL_RECORDS.values(), *METADATA_RECORDS)
    return {name: message(definitions[name]) for name in names if name in definitions}


def message(definition: Definition, first: int = 0, last: int = ANY_VERSION) -> Message:
    """Return the table of one definition in the versions from first to last, as far as it has them."""
    since, until = _range(definition["validVersions"])
    first, last = max(first, since), min(last, until)
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    flexible_since, _ = _range(definition["flexibleVersions"])
    return Message(
        definition.get("apiKey"),
        (first, last),
        max(first, flexible_since) if flexible_since <= last else ANY_VERSION,
        tuple(_fields(definition["fields"], structs, first, last)),
    )


def _fields(
    fields: Iterable[Definition], structs: Mapping[str, Any], first: int, last: int
) -> Iterator[Field]:
    for each in fields:
        since, until = _range(each["versions"])
        if since > last or until < first:
            continue
        kind = each["type"]
        nested = each.get("fields") or structs.get(kind.removeprefix("[]"), ())
        yield Field(
            snake_case(each["name"]),
            kind,
            since if since > first else 0,
            until if until < last else ANY_VERSION,
            _tag(each, max(since, first), min(until, last)),
            _default(each),
            _covers(each, "nullableVersions", max(since, first), min(until, last)),
            each.get("flexibleVersions") != "none",
            tuple(_fields(nested, structs, first, last)),
        )


def _tag(field: Definition, first: int, last: int) -> int | None:
    is_tagged = _covers(field, "taggedVersions", first, last)
    return int(field["tag"]) if is_tagged else None  # "tag" is text in some files


def _covers(field: Definition, key: str, first: int, last: int) -> bool:
    """Return whether a property of a field holds in all versions, and not in none; fail where it depends."""
    since, until = _range(field.get(key, "none"))
    if since > last or until < first:
        return False
    if since > first or until < last:
        raise ValueError(
            f"{field['name']}: {key} holds in some of the versions {first}-{last} only"
        )
    return True


def _default(field: Definition) -> int | str | bool | None:
    text, kind = field.get("default"), field["type"]
    if text is None or text == "null":
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    return str(text) if kind == "string" else int(str(text), 0)


def _range(versions: str) -> tuple[int, int]:
    """Return the first and the last of versions such as 3, 0-2 or 4+; an empty range for none.

    >>> _range("4+"), _range("0-2"), _range("none")
    ((4, 32767), (0, 2), (32767, -1))
    """
    if versions == "none":
        return ANY_VERSION, -1
    if versions.endswith("+"):
        return int(versions[:-1]), ANY_VERSION
    since, _, until = versions.partition("-")
    return int(since), int(until or since)


def snake_case(name: str) -> str:
    """Return one of Kafka's names in snake_case.

    >>> [snake_case(each) for each in ("TopicId", "LastKnownELR", "KRaftVersion")]
    ['topic_id', 'last_known_elr', 'kraft_version']
    """
    return _WORDS.sub("_", name.replace("KRaft", "Kraft")).lower()


def schemas_text(definitions: Mapping[str, Definition]) -> str:
    """Return the text of schemas.py."""
    tables = [
        ("MESSAGES", "Requests, responses and their headers.", messages(definitions)),
        ("RECORDS", "Control records and metadata records.", records(definitions)),
    ]
    lines = [
        '"""The messages, control records and metadata records of Kafka that the observer uses.',
        "",
        "Made by `python -m tools.kraft` from the JSON inside the jars that kcm/servers/kafka-4.xml pins: a change is made",
        "there.",
        '"""',
        "",
        "# fmt: off",
        "",
        "from kraft_source.wire.schema import Field, Message",
    ]
    for name, meaning, table in tables:
        lines += ["", f"{name}: dict[str, Message] = {{"]
        for each, its in table.items():
            head = f"{its.api_key}, {its.versions}, {its.flexible_since}"
            lines.append(f'    "{each}": Message({head}, ({_text(its.fields, 8)}')
            lines[-1] += ")),"
        lines += ["}", f'"""{meaning}"""']
    lines += ["", f"CONTROL_RECORDS = {_quoted(CONTROL_RECORDS)}"]
    lines.append('"""The names of control records by their number in `ControlRecordType`."""')
    return "\n".join(lines) + "\n"


def _text(fields: Iterable[Field], indent: int) -> str:
    """Return fields as source text, one a line."""
    text = ""
    for each in fields:
        options = [
            f"{name}={_quoted(getattr(each, name))}"
            for name, default in Field._field_defaults.items()
            if name != "fields" and getattr(each, name) != default
        ]
        text += (
            f"\n{' ' * indent}Field({', '.join([_quoted(each.name), _quoted(each.kind), *options])}"
        )
        if each.fields:
            text += f", fields=({_text(each.fields, indent + 4)})"
        text += "),"
    return f"{text}\n{' ' * (indent - 4)}" if text else ""


def _quoted(value: object) -> str:
    return repr(value).replace("'", '"')
