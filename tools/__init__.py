"""Tools for people who change the project: generators, checks and measurements."""
