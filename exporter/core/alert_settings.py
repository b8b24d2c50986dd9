"""The changes that an installation makes to alerts, so that the page judges as its alert rules do.

The keys are those of the chart's `prometheusRule.alerts`, from which the chart makes both the
rules and these settings. A change that would have no effect is refused, as the chart refuses it.
"""

import json
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from controller_model.insight.thresholds import THRESHOLDS, Severity, Threshold
from pipeline.durations import DURATION, duration_ms

_SECOND_MS = 1000


class AlertChange(BaseModel):
    """The changes to one alert; a field that is left out changes nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    threshold: float | None = None
    hold: str | None = Field(None, alias="for", pattern=f"^{DURATION}$")
    severity: str | None = Field(None, min_length=1)

    def applied_to(self, threshold: Threshold) -> Threshold:
        """Return the threshold with these changes applied.

        A severity that is not one of `Severity` says who is notified, not how bad it is: the page keeps its own.
        """
        changed = threshold
        if self.threshold is not None:
            changed = changed._replace(limit=self.threshold)
        if self.hold is not None:
            changed = changed._replace(for_s=duration_ms(self.hold) // _SECOND_MS)
        if self.severity in set(Severity):
            changed = changed._replace(severity=Severity(self.severity))
        return changed


def _checked(changes: dict[str, AlertChange]) -> dict[str, AlertChange]:
    """Return the changes; raise ValueError for one that would have no effect."""
    for name, change in changes.items():
        if name not in THRESHOLDS:
            raise ValueError(f"there is no alert {name}; there are {', '.join(sorted(THRESHOLDS))}")
        if change.threshold is not None and THRESHOLDS[name].compare is None:
            raise ValueError(f"{name} compares with no number, so it has no threshold")
    return changes


AlertChanges = Annotated[
    dict[
        str,
        # An option or a variable is JSON.
        Annotated[
            AlertChange,
            BeforeValidator(lambda v: json.loads(v) if isinstance(v, str) else v, JsonValue),
        ],
    ],
    AfterValidator(_checked),
]
"""By the alert's name."""


def changed_thresholds(changes: AlertChanges) -> Mapping[str, Threshold]:
    """Return the threshold of each alert by its name, without the alerts that are disabled."""
    return {
        name: changes[name].applied_to(threshold) if name in changes else threshold
        for name, threshold in THRESHOLDS.items()
        if name not in changes or changes[name].enabled
    }
