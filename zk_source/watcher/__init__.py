"""The watcher's decisions: when to read, to resync, to publish, to give up.

Pure: no socket, clock or thread. The service reports what happened and gets commands. Of `wire` it may
import the plain values only.
"""
