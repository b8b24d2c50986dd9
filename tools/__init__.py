"""What maintains this repository and ships with no part: `python -m tools.NAME`."""
