"""The pages for users; `python -m docs` makes the reference pages among them."""
