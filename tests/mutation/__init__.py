"""Check what `make mutate` found against the recorded reasons."""
