"""Makes kraft_source/wire/schemas.py from the JSON inside Kafka's jars."""
