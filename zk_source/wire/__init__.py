"""One connection to ZooKeeper: jute records, pipelined requests, replies and notifications in socket order.

It uses kazoo, and may import no other subpackage; only the watcher's settings.
"""
