"""What a znode's new value means: one module for each family of znodes.

A handler changes the state and emits events. It may use `tracking`, `state` and the sub-packages
below them.
"""
