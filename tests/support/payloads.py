"""Payloads of znodes as JSON, and whether a decoder refuses one."""

from __future__ import annotations

import json
from typing import Any

from controller_model.kafka.errors import UnreadableZnodeError


def encoded(content: Any) -> bytes:
    """Return content as JSON."""
    return json.dumps(content).encode()


def refuses(decode: Any, content: Any) -> bool:
    """Tell whether a decoder finds a payload unreadable."""
    try:
        decode(content if isinstance(content, bytes) else encoded(content))
    except UnreadableZnodeError as error:
        return 0 < len(str(error)) <= 200
    return False
