"""Change the code, and check what the tests missed against the recorded reasons."""
