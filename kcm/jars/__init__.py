"""The jars of Spark's Kafka connector and of the servers, and the Java that runs them.

It may use `processes`.
"""
