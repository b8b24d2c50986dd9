"""Where a broker's controller stands, what may happen to it, and where that may lead: the table.

The rule: the table is total, and `controller_lifecycle` leads nowhere that it does not allow.
Source (Kafka 3.9): kafka.controller.KafkaController.process and ControllerEventManager.
"""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """Where a broker stands between two events of its controller."""

    NOT_STARTED = "not started"
    STANDBY = "standby"
    """It watches /controller, which another broker holds, or nobody at the moment."""
    FAILOVER = "failover"
    """It has won and works through FAILOVER_STEPS."""
    ACTIVE = "active"
    """It is the controller and has done all that."""
    EXPIRED = "expired"
    """Its session is lost; nothing is done until there is a new one."""
    CLOSED = "closed"
    """The broker is shutting down."""


class Event(enum.StrEnum):
    """What happens to it (kafka.controller.ControllerEvent, and what ends an election)."""

    STARTUP = "Startup"
    CONTROLLER_CHANGE = "ControllerChange"
    """/controller was created or its data changed: look who it is."""
    REELECT = "Reelect"
    """/controller was deleted: look, then stand for election."""
    STEP_DONE = "step done"
    """The next of FAILOVER_STEPS has been done."""
    CONTROLLER_MOVED = "ControllerMovedException"
    """A write was refused because /controller_epoch has another version."""
    FAILED = "error"
    """Any other error during the failover, or an illegal state at any time: give it away."""
    EXPIRE = "Expire"
    """The session is lost (beforeInitializingSession)."""
    NEW_SESSION = "RegisterBrokerAndReelect"
    """There is a new one (afterInitializingSession)."""
    SHUTDOWN = "shutdown"


_LOOKING = (Phase.STANDBY, Phase.FAILOVER, Phase.ACTIVE)
_HOLDING = (Phase.STANDBY, Phase.ACTIVE)
WAITS = (Phase.FAILOVER,)
"""Where an event leads that has to wait for the end of a failover."""

TRANSITIONS: dict[Phase, dict[Event, tuple[Phase, ...]]] = {
    Phase.NOT_STARTED: {
        Event.STARTUP: _LOOKING,
        Event.CONTROLLER_CHANGE: (),
        Event.REELECT: (),
        Event.STEP_DONE: (),
        Event.CONTROLLER_MOVED: (),
        Event.FAILED: (),
        Event.EXPIRE: (),
        Event.NEW_SESSION: (),
        Event.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.STANDBY: {
        Event.STARTUP: (),
        Event.CONTROLLER_CHANGE: _HOLDING,
        Event.REELECT: _LOOKING,
        Event.STEP_DONE: (),
        Event.CONTROLLER_MOVED: _HOLDING,
        Event.FAILED: (Phase.STANDBY,),
        Event.EXPIRE: (Phase.EXPIRED,),
        Event.NEW_SESSION: (),
        Event.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.FAILOVER: {
        Event.STARTUP: (),
        Event.CONTROLLER_CHANGE: WAITS,
        Event.REELECT: WAITS,
        Event.STEP_DONE: (Phase.FAILOVER, *_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        Event.CONTROLLER_MOVED: (*_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        Event.FAILED: (*_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        Event.EXPIRE: WAITS,
        Event.NEW_SESSION: (),
        Event.SHUTDOWN: WAITS,
    },
    Phase.ACTIVE: {
        Event.STARTUP: (),
        Event.CONTROLLER_CHANGE: _HOLDING,
        Event.REELECT: _LOOKING,
        Event.STEP_DONE: (),
        Event.CONTROLLER_MOVED: _HOLDING,
        Event.FAILED: (Phase.STANDBY,),
        Event.EXPIRE: (Phase.EXPIRED,),
        Event.NEW_SESSION: (),
        Event.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.EXPIRED: {
        Event.STARTUP: (),
        Event.CONTROLLER_CHANGE: (),
        Event.REELECT: (),
        Event.STEP_DONE: (),
        Event.CONTROLLER_MOVED: (),
        Event.FAILED: (),
        Event.EXPIRE: (),
        Event.NEW_SESSION: _LOOKING,
        Event.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.CLOSED: dict.fromkeys(Event, ()),
}
"""Where each event may lead; nowhere: it cannot come there, or nobody minds it.

While a failover is under way only its own end is taken in: Kafka's event thread is busy, and what
comes meanwhile waits (Lifecycle.waiting). Then it decides, hence the many ways out.
"""
