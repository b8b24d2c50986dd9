"""Make the reference of settings: docs/configuration.md.

The rule: settings come from the classes that check them; the error for a bad value is the one that
the class raises for such a value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_origin

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from kcm.cli.options import Options, option_name
from kcm.cli.parts import PARTS, Part, load_part
from kcm.run.config import reference
from pipeline.runtime import ENV_PREFIX, UsageError
from tools.docs.markdown import code, page, plain, table

ABOUT = """Options win over environment variables, these over the folder of secrets that `secrets_dir` names, this over the
file that `--config` or `KCM_CONFIG` names (TOML, `log_level = "info"`), that over the defaults. `kcm config` prints what is in
effect and where it came from, without secrets: of `kafka_properties` and `spark_conf` it shows the values of properties that are
known to hold none, and hides all others. One file may hold the settings of all parts: each
takes its own. An empty variable counts as not given. Properties in mappings (`kafka_properties`,
`spark_conf`) are merged by key over all of these places, so that a password can stay out of the file.

Units stand in the names: `_s` seconds, `_ms` milliseconds, `_mib` MiB, `_per_s` a second."""

OTHERS = """## Other variables

| Variable | Means |
|---|---|
| `KCM_CONFIG` | The configuration file, as `--config`. |
| `KCM_EXPORTER` | The exporter that commands ask, as their `--exporter`. |
| `KCM_HTTP_CONFIG_FILE` | How they ask it where it has TLS or asks for a password, as their `--http-config-file`. |
| `KCM_IVY_SETTINGS` | An Ivy settings file: where jars are downloaded from, such as a mirror of yours. |
| `JAVA_HOME` | Java 17 or newer, where `java_home` does not say. |
| `XDG_STATE_HOME`, `XDG_CACHE_HOME` | Where `kcm up` keeps its data (`~/.local/state`) and jars (`~/.cache`). |

A variable that begins with `KCM_`, is no setting, and resembles one is warned of at start."""

SECRETS = """## Secrets in files

`secrets_dir` names a folder with a secret in each file, as Docker (`/run/secrets`) and Kubernetes (a Secret as a volume) mount
them. A file is called as the setting (`zk_auth`) or, in a mapping, as setting and property
(`kafka_properties.sasl.password`, `spark_conf.spark.authenticate.secret`); `kafka_properties` alone is JSON with all of them, as in its variable. The end of the last line does not count. A file whose name is no
setting is refused; names that begin with a dot are left alone. The folder is read at start.

Every user of a machine sees the arguments of its processes: give secrets by files or variables, not as options. Of Spark's
processes nothing but names of files stands there, with one exception: `spark.executor.extraJavaOptions` are arguments of executors
that a standalone master or YARN starts."""

REFUSED = """## Errors for bad values

Every value is checked before anything starts; each bad one is a line on standard error, and the exit code is 2. A line names
the place that the value came from: the option, the variable or the file. The values of secrets are not repeated. These lines are
what the program says, of one bad value each:"""

_CANDIDATES = ("often", "", "a b", "no-port", "/brokers")
"""Values that some text settings refuse."""


def configuration_page() -> str:
    """Return the page."""
    refused = table(("Given", "Error"), _refusals())
    return page("Configuration", ABOUT, reference(), SECRETS, OTHERS, REFUSED, refused)


def _refusals() -> Iterator[tuple[str, str]]:
    """Yield a bad value of each setting that refuses any, and the error line for it."""
    named: set[str] = set()
    with _no_variables_of_ours():
        for part in PARTS:
            for name, field in part.settings.model_fields.items():
                if name not in named:
                    yield from _refusal(part, name, field)
            named.update(part.settings.model_fields)
        yield _error(PARTS[0], "kafka_properties", {"bootstrap.servers": "k1:9092"})
        for variable, value in (("KCM_HEARTBEAT_S", "often"), ("KCM_KAFKA_PROPERTIES", "often")):
            os.environ[variable] = value
            yield code(f"{variable}={value}"), _line_about(PARTS[0], {})
            del os.environ[variable]


def _refusal(part: Part, name: str, field: FieldInfo) -> Iterator[tuple[str, str]]:
    for value in _bad_values(field):
        error = _error(part, name, value)
        if error[1]:
            yield error
            return


def _error(part: Part, name: str, value: Any) -> tuple[str, str]:
    """Return the option as it was given, and its error."""
    shown = value or '""'
    if isinstance(value, dict):
        shown = " ".join(f"{key}={item}" for key, item in value.items())
    return code(f"{option_name(name)} {shown}"), _line_about(part, {name: value})


def _line_about(part: Part, options: Options) -> str:
    """Return the error that a part prints for these options; empty when they are valid."""
    try:
        load_part(part, None, options)
    except UsageError as error:
        return plain(str(error))
    return ""


def _bad_values(field: FieldInfo) -> Iterator[str]:
    """Yield values that a setting may refuse, first those just outside its bounds."""
    if get_origin(field.annotation) is dict:
        return
    for bound in field.metadata:
        match bound:
            case Le(le=most):
                yield f"{float(str(most)) + 1:.0f}"
            case Ge(ge=least):
                yield f"{float(str(least)) - 1:.0f}"
            case Gt(gt=above):
                yield str(above)
    yield from _CANDIDATES


@contextmanager
def _no_variables_of_ours() -> Iterator[None]:
    """Hide KCM_ variables, so that the page is the same wherever it is made."""
    held = {name: value for name, value in os.environ.items() if name.startswith(ENV_PREFIX)}
    for name in held:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(held)
