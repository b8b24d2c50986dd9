"""The watcher's decisions: when to read, to resync, to publish, to give up.

Pure: no socket, clock or thread. It is told what happened and returns commands. Of `wire` it may
import the plain values only.
"""
