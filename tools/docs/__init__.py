"""`python -m tools.docs`: makes the reference pages of docs, and the picture of ARCHITECTURE.md."""
