"""What `make mutate` finds, and the reasons of what it may find."""
