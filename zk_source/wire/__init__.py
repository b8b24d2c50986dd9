"""One connection to ZooKeeper: jute records, pipelined requests, replies and notifications in socket order.

It uses kazoo, and no other room but the watcher's settings.
"""
