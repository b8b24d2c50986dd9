"""A whole simulated cluster: brokers, the active controller, operations and chance.

It may use `controller` and `zookeeper`.
"""
