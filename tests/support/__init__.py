"""What tests share: histories, played servers, samples, waits, oracles.

No test lives here. A helper that only one test file uses stays in that file.
"""
