"""The observer's decisions: whom to ask for what, and what of the answers is committed.

Pure: no socket, clock or thread. The runner carries out what it decides, and hands it the answers. Of `wire` it
may use values, batches and records only.
"""
