"""What tests share: histories, fake servers, samples, waits, oracles.

This package has no tests. A helper that only one test file uses is in that file.
"""
