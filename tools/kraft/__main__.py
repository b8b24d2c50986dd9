"""`python -m tools.kraft`: write kraft_source/wire/schemas.py from the JSON inside the newest Kafka's jars."""

from __future__ import annotations

import sys

from kcm.servers.jars import KAFKA_4, ensure_set
from tools.kraft.generate import TARGET, read_definitions, schemas_text


def main() -> int:
    """Write the file, and say so if it has changed."""
    text = schemas_text(read_definitions(ensure_set(KAFKA_4)["broker"]))
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        TARGET.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{TARGET.name}: written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
