"""A release: all that is published, made by one command."""
