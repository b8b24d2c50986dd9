"""What a znode's new value means: one file for each family of znodes.

A handler changes the state and emits events. It may use `tracking`, `state` and what stands below
them.
"""
