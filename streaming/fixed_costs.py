"""Reduces what defaults cost in each batch: of Python's collector in the worker, of Spark and Hadoop in the JVM.

This only makes batches cheaper. What they read, write and return stays the same. Each
function says what it saves of the batch of one change: the batch's time, and the processor time of
JVM and Python together. `python -m bench patches` measures it; what saves less than 3 % has no place
here. tests/unit/streaming/test_spark_release fails when Spark is another one than the measured.

The JVM's part is for a driver that also runs the tasks: JVMs on other machines keep the defaults,
and so does a JVM that refuses a change.
"""

import gc
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

GC_THRESHOLDS = (50_000, 20, 100)
"""New objects, and then runs of each younger generation, before the next generation is searched.
Python's own are 700, 10, 10."""

MAX_OBJECTS = 5_000
"""Objects that every run may search again; that takes some tenths of a millisecond."""

_HADOOP = "spark.hadoop."
"""The prefix of Hadoop's settings among Spark's."""

_REFUSED = (Py4JError, PySparkException)
"""What a call raises for an exception in the JVM."""

_PAGE_LISTENERS = {"AppStatusListener", "SQLAppStatusListener"}

_LOCAL_FILES = """
package kcm;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Leaves the permissions of files and folders to the process's umask. */
public class LocalFiles extends org.apache.hadoop.fs.RawLocalFileSystem {
  public void setPermission(Path path, FsPermission permission) {}
}
"""


def relax_gc() -> None:
    """Let this process's collector run after 50,000 new objects only; it still finds cycles of other libraries.

    The fold makes no cycles: its objects are freed as soon as nothing refers to them. Saves 25 % of
    Python's processor time in the batches of a resync of 200,000 partitions, of a small batch 1 %.
    """
    gc.set_threshold(*GC_THRESHOLDS)


def freeze_long_lived() -> None:
    """Exclude the objects that exist now from later runs of the collector, if they are many.

    Spark's worker runs the collector after each task (`manager` in pyspark.daemon). Over the objects
    of all modules, some 50,000, a run takes more time than the fold needs for a small batch. Cycles
    that arise later are found as before. Saves 21 % of the time, 28 % of the processor time.
    """
    if len(gc.get_objects()) > MAX_OBJECTS:
        gc.collect()  # what is unreachable now would never be freed
        gc.freeze()


def reduce_costs_of_a_batch(spark: SparkSession, jvm: Any, conf: Mapping[str, str]) -> None:
    """Reduce them for all batches of this session in its JVM; `conf` has the user's settings of Spark."""
    factory_mode = str(spark.conf.get("spark.sql.codegen.factoryMode"))
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    hadoop = context.hadoopConfiguration()
    with suppress(*_REFUSED):
        _write_files_without_processes(jvm, hadoop)
    _shorten_hadoop_configuration(hadoop, conf)
    with suppress(*_REFUSED):
        _generate_no_code_in_any_thread(jvm, factory_mode)
    if spark.conf.get("spark.ui.enabled") == "false":
        with suppress(*_REFUSED):
            _remove_page_listeners(context)


def _write_files_without_processes(jvm: Any, hadoop: Any) -> None:
    """Let Hadoop write a file without starting `chmod`, and without a `.crc` next to it.

    RawLocalFileSystem.setPermission starts a process unless Hadoop's native library is there, which
    Spark does not ship. A batch writes three files. Janino, Spark's own compiler, compiles the class
    that replaces it. Saves 23 % of the time and of the processor time.
    """
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(hadoop)  # Hadoop keeps this one instance
    local.setWriteChecksum(False)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_LOCAL_FILES)
    kind = compiler.getClassLoader().loadClass("kcm.LocalFiles")
    files = jvm.org.apache.hadoop.util.ReflectionUtils.newInstance(kind, hadoop)
    files.initialize(local.getUri(), hadoop)
    replaced = jvm.java.lang.Class.forName("org.apache.hadoop.fs.FilterFileSystem")
    field = replaced.getDeclaredField("fs")
    field.setAccessible(True)
    field.set(local, files)


def _shorten_hadoop_configuration(hadoop: Any, conf: Mapping[str, str]) -> None:
    """Drop a thousand settings of file systems and clusters that the fold does not use: Spark packs all of them for each batch.

    Saves 8 % of the time, 5 % of the processor time.
    """
    hadoop.clear()
    for name, value in conf.items():
        if name.startswith(_HADOOP):
            hadoop.set(name.removeprefix(_HADOOP), value)


def _generate_no_code_in_any_thread(jvm: Any, mode: str) -> None:
    """Make the session's factoryMode the default, for threads that belong to no session.

    The thread that answers Python's requests for state (TransformWithStateInPySparkStateServer)
    reads SQLConf's defaults. By default it writes Java code in each batch, and then finds that
    Spark has compiled the same before. Saves 11 % of the time, 6 % of the processor time.
    """
    modes = jvm.org.apache.spark.sql.catalyst.expressions.CodegenObjectFactoryMode
    settings = getattr(getattr(jvm, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$")
    entry = settings.CODEGEN_FACTORY_MODE()
    fields = entry.getClass().getDeclaredFields()
    field = next(each for each in fields if each.getName().endswith("_defaultValue"))
    field.setAccessible(True)
    field.set(entry, modes.withName(mode))


def _remove_page_listeners(context: Any) -> None:
    """Remove the listeners that keep figures of jobs, stages and queries for Spark's web pages.

    Saves 4 % of the processor time and 20 MiB (3.5 %) of the JVM's memory.
    """
    bus = context.listenerBus()
    for listener in list(bus.listeners()):
        if listener.getClass().getSimpleName() in _PAGE_LISTENERS:
            bus.removeListener(listener)
