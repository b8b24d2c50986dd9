"""Make options of the command line from the settings classes.

A setting is defined once, in its class. Its option, its help and its line in the
reference are made from there. Option values stay text until the settings check them, so that a bad
value is reported the same way wherever it was written.
"""

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings

SettingsClass: TypeAlias = type[PipelineSettings]
Options: TypeAlias = dict[str, Any]
"""Values of options by the setting's name; None: not given."""

CONFIG_HELP = "TOML file with settings by their names, such as log_level; or KCM_CONFIG."
_EMPTY: Mapping[str, str] = {}
_UNIT_PLACEHOLDERS = {
    "_per_s": "N",
    "_s": "SECONDS",
    "_ms": "MS",
    "_mib": "MIB",
    "_port": "PORT",
    "_dir": "DIR",
}


NO_CLUSTER: Mapping[str, str] = {"zookeeper": "", "controllers": ""}
"""For `with_options`: a verb that watches a cluster needs its name, and takes no default."""


def with_options(
    *classes: SettingsClass,
    defaults: Mapping[str, str] = _EMPTY,
    only: Collection[str] | None = None,
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a verb one option for each setting of the classes.

    `defaults` holds this verb's defaults where they differ from the class's. `only` names the
    settings that it needs; None: all. The verb gets `config` (a Path or None) and `options`; its
    other parameters are unchanged.
    """
    fields = _fields(classes)
    names = [name for name in fields if only is None or name in only]

    def decorate(verb: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(verb, eval_str=True).parameters
        own = {name: each for name, each in signature.items() if name not in {"config", "options"}}

        @functools.wraps(verb)
        def run(**values: Any) -> int:
            rest = {name: values[name] for name in own}
            options = {name: _read(name, fields[name], values[name]) for name in names}
            return verb(config=values["config"], options=options, **rest)

        parameters = [
            *own.values(),
            _parameter("config", Path | None, typer.Option("--config", help=CONFIG_HELP)),
            *(_of_field(name, fields[name], defaults.get(name)) for name in names),
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads the signature, and a function may have one of its own
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate


def option_name(name: str) -> str:
    """Return the option of a setting.

    >>> option_name("log_level")
    '--log-level'
    """
    return f"--{name.replace('_', '-')}"


def placeholder(name: str, field: FieldInfo) -> str:
    """Return the placeholder for a setting's value in the help and the reference."""
    if _is_mapping(field):
        return "KEY=VALUE"
    if get_origin(field.annotation) is Literal:
        return "|".join(map(str, get_args(field.annotation)))
    if field.annotation is bool:
        return "true|false"
    ending = next((unit for end, unit in _UNIT_PLACEHOLDERS.items() if name.endswith(end)), None)
    if ending:
        return ending
    for kind, text in ((Path, "PATH"), (int, "N"), (float, "NUMBER")):
        if kind in (field.annotation, *get_args(field.annotation)):
            return text
    return "TEXT"


def default_text(field: FieldInfo) -> str:
    """Return a setting's default as a user would write it; empty when there is none."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if default in (None, PydanticUndefined, "", (), {}):
        return ""
    if isinstance(default, float) and default.is_integer():
        return str(int(default))
    return str(default).lower() if isinstance(default, bool) else str(default)


def _fields(classes: Iterable[SettingsClass]) -> dict[str, FieldInfo]:
    """Return each setting once: a part's own settings before those that all parts share."""
    shared = PipelineSettings.model_fields
    fields = {name: field for each in classes for name, field in each.model_fields.items()}
    return {name: field for name, field in fields.items() if name not in shared} | shared


def _of_field(name: str, field: FieldInfo, default: str | None) -> inspect.Parameter:
    """Return the option of a setting; `default`, if given, is shown instead of its own default."""
    shown = default_text(field) if default is None else default
    text = f"{field.description or ''}{f' [default: {shown}]' if shown else ''}"
    option = option_name(name)
    if field.annotation is bool:
        flags = f"{option}/--no-{option.removeprefix('--')}"
        return _parameter(name, bool | None, typer.Option(flags, help=text, show_default=False))
    metavar = placeholder(name, field)
    info = typer.Option(option, help=text, show_default=False, metavar=metavar)
    return _parameter(name, list[str] | None if _is_mapping(field) else str | None, info)


def _parameter(name: str, annotation: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[annotation, info],
    )


def _is_mapping(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is dict


def _read(name: str, field: FieldInfo, value: Any) -> Any:
    """Return an option's value in the form that the settings take; None when it was not given."""
    if not _is_mapping(field):
        return value
    pairs: Mapping[str, str] = dict(_pair(name, text) for text in value or ())
    return pairs or None


def _pair(name: str, text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not (key and sign):
        # the text itself may be a secret
        raise UsageError(
            f"option {option_name(name)}: give each value as KEY=VALUE, and repeat the option for more"
        )
    return key, value
