"""Lists properties of the Kafka client and of Spark that are known to hold no secret.

What is not listed here is never shown. The names of secrets cannot be listed: each file
system and each plugin has its own, such as `fs.azure.account.key.ACCOUNT...`.
"""

_KAFKA = frozenset(
    {
        "allow.auto.create.topics",
        "api.version.request",
        "broker.address.family",
        "broker.address.ttl",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "compression.type",
        "connections.max.idle.ms",
        "debug",
        "enable.ssl.certificate.verification",
        "linger.ms",
        "log_level",
        "message.max.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retries",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.keystore.location",
        "statistics.interval.ms",
    }
)
_SPARK = frozenset(
    {
        "spark.app.name",
        "spark.authenticate",
        "spark.default.parallelism",
        "spark.driver.bindAddress",
        "spark.driver.blockManager.port",
        "spark.driver.cores",
        "spark.driver.extraClassPath",
        "spark.driver.host",
        "spark.driver.memory",
        "spark.driver.memoryOverhead",
        "spark.driver.port",
        "spark.blockManager.port",
        "spark.cores.max",
        "spark.eventLog.enabled",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.executor.memoryOverhead",
        "spark.hadoop.fs.defaultFS",
        "spark.io.encryption.enabled",
        "spark.jars",
        "spark.jars.ivySettings",
        "spark.jars.packages",
        "spark.local.dir",
        "spark.locality.wait",
        "spark.master",
        "spark.network.timeout",
        "spark.python.worker.reuse",
        "spark.shuffle.service.enabled",
        "spark.task.cpus",
        "spark.task.maxFailures",
        "spark.ui.enabled",
        "spark.ui.port",
    }
)
_SPARK_FAMILIES = (
    "spark.dynamicAllocation.",
    "spark.network.crypto.",
    "spark.sql.adaptive.",
    "spark.sql.execution.",
    "spark.sql.shuffle.",
    "spark.sql.streaming.",
    "spark.kubernetes.allocation.",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.pod.",
    "spark.kubernetes.executor.deleteOnTermination",
    "spark.kubernetes.executor.disableConfigMap",
    "spark.kubernetes.executor.podTemplate",
    "spark.kubernetes.namespace",
)
"""Prefixes of names."""


def is_harmless(name: str) -> bool:
    """Return whether a property is known to hold no secret.

    >>> is_harmless("security.protocol"), is_harmless("sasl.password")
    (True, False)
    """
    return name in _KAFKA or name in _SPARK or name.startswith(_SPARK_FAMILIES)
