"""A whole simulated cluster: brokers, the active controller, operations and choices.

It may import `controller` and `zookeeper`.
"""
