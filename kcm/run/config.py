"""`kcm config`: print the settings and their origins, or the reference of all of them.

Secrets are never shown, and the reference is made from the same classes that check the
values, so it cannot be out of step.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from kcm.cli.options import Options, default_text, option_name, placeholder, with_options
from kcm.cli.parts import (
    ALL_SETTINGS,
    PARTS,
    all_names,
    load_all,
    pipeline_parts,
    suspicious_variables,
)
from pipeline.runtime import ENV_PREFIX
from pipeline.settings import PipelineSettings, describe, read_layers


@with_options(*ALL_SETTINGS)
def config(
    config: Path | None,
    options: Options,
    *,
    markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print the reference of all settings in Markdown instead."),
    ] = False,
) -> int:
    """Print all settings, and where each came from.

    Examples: kcm config --config kcm.toml, kcm config --markdown

    Secrets are not shown. Options override environment variables (KCM_LOG_LEVEL), which override the file (log_level = "info"), which
    overrides the defaults.
    """
    if markdown:
        typer.echo(reference())
        return 0
    for line in effective(config, options):
        typer.echo(line)
    for line in suspicious_variables():
        typer.echo(f"kcm: warning: {line}", err=True)
    return 0


def effective(config_file: Path | None, options: Options) -> Iterator[str]:
    """Yield the settings in effect as lines: name, value, origin."""
    rows: dict[str, tuple[str, str]] = {}
    parts = pipeline_parts(config_file, options)
    for part, settings in zip(parts, load_all(config_file, options), strict=True):
        own = {name: options.get(name) for name in part.settings.model_fields}
        layers = read_layers(part.settings, config_file, known=all_names(), **own)
        for name, value in describe(settings).items():
            rows[name] = (value, layers.origin(name))
    name_width = max(map(len, rows))
    value_width = min(40, max(len(value) for value, _ in rows.values()))
    for name, (value, origin) in rows.items():
        yield f"{name:<{name_width}}  {value:<{value_width}}  ({origin})"


def reference() -> str:
    """Return the reference of all settings as Markdown tables, one for each part."""
    named = dict(PipelineSettings.model_fields)
    tables = [_table("All parts", named)]
    for part in PARTS:
        every = part.settings.model_fields
        own = {name: field for name, field in every.items() if name not in named}
        named |= own
        tables.append(_table(f"{part.title} (`kcm {part.verb}`)", own))
    return "\n\n".join(tables)


def bounds(field: FieldInfo) -> str:
    """Return the range of a number as text; empty when it has none.

    >>> bounds(PARTS[0].settings.model_fields["heartbeat_s"])
    'above 0, at most 20'
    """
    parts = []
    for bound in field.metadata:
        match bound:
            case Ge(ge=least):
                parts.append(f"at least {least}")
            case Gt(gt=above):
                parts.append(f"above {above}")
            case Le(le=most):
                parts.append(f"at most {most}")
    return ", ".join(parts)


def _table(title: str, fields: Mapping[str, FieldInfo]) -> str:
    lines = [
        f"## {title}",
        "",
        "| Setting | Option, variable | Default | Takes | Meaning |",
        "|---|---|---|---|---|",
    ]
    for name, field in fields.items():
        option = f"`{option_name(name)} {placeholder(name, field)}`".replace("|", "\\|")
        default = default_text(field)
        shown = f"`{default}`" if default else ""
        # outside code, Markdown reads <these> as HTML
        meaning = (field.description or "").replace("|", "\\|").replace("<", "&lt;")
        lines.append(
            f"| `{name}` | {option}<br>`{ENV_PREFIX}{name.upper()}` | {shown} "
            f"| {bounds(field)} | {meaning} |"
        )
    return "\n".join(lines)
