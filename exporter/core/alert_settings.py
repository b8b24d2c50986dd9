"""What an installation has changed of alerts: the page judges by the same.

The rule: the words are those of the chart's `prometheusRule.alerts`, which makes the rules and these
settings from the same values. What would have no effect is refused, as the chart refuses it.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from controller_model.insights.thresholds import THRESHOLDS, Severity, Threshold
from pipeline.durations import DURATION, duration_ms

_SECOND_MS = 1000


class AlertChange(BaseModel):
    """What is to be different of one alert; what is left out stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = True
    threshold: float | None = None
    hold: str | None = Field(None, alias="for", pattern=f"^{DURATION}$")
    severity: str | None = Field(None, min_length=1)

    def applied_to(self, threshold: Threshold) -> Threshold:
        """Return when the alert fires by these changes.

        A severity of other words than ours says who is notified, and not how bad it is: the page keeps its own.
        """
        changed = threshold
        if self.threshold is not None:
            changed = changed._replace(limit=self.threshold)
        if self.hold is not None:
            changed = changed._replace(hold_s=duration_ms(self.hold) // _SECOND_MS)
        if self.severity in set(Severity):
            changed = changed._replace(severity=Severity(self.severity))
        return changed


def _from_text(value: Any) -> Any:
    """Return what an option or a variable holds as JSON; anything else as it is."""
    return json.loads(value) if isinstance(value, str) else value


AlertChanges = dict[str, Annotated[AlertChange, BeforeValidator(_from_text, JsonValue)]]
"""By the alert's name."""


def check_alerts(changes: AlertChanges) -> AlertChanges:
    """Return the changes; raise ValueError for one that would have no effect."""
    for name, change in changes.items():
        if name not in THRESHOLDS:
            raise ValueError(f"there is no alert {name}; there are {', '.join(sorted(THRESHOLDS))}")
        if change.threshold is not None and THRESHOLDS[name].compare is None:
            raise ValueError(f"{name} compares with no number, so it has no threshold")
    return changes


def changed_thresholds(changes: AlertChanges) -> Mapping[str, Threshold]:
    """Return when each alert fires, by its name; what is disabled is not in it."""
    changed = {
        name: change.applied_to(THRESHOLDS[name])
        for name, change in changes.items()
        if change.enabled
    }
    return {
        name: changed.get(name, threshold)
        for name, threshold in THRESHOLDS.items()
        if name in changed or name not in changes
    }
