"""What PySpark names of the JVM for each column and plan: looked up once instead of each time.

Py4J remembers no class and no method. A class that is named without its package, such as `functions`, the JVM looks for
in all jars, once for each package that PySpark imports; and to find a method it copies the list of all its class has.
"""

from typing import Any

from pyspark.sql import SparkSession

COLUMNS = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
"""Classes of which PySpark calls static methods, several for each column."""
OTHERS = (
    "PythonRDD",
    "PythonSQLUtils",
    "SerDeUtil",
    "SimplePythonFunction",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.expressions.Window",
)


class StaticMethods:
    """Those of a class, each looked up when it is first named."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._java_class, name)
        setattr(self, name, method)
        return method


def look_up_once(spark: SparkSession) -> None:
    """PySpark's view of the JVM asks it only for what is no attribute of its own."""
    view: Any = spark.sparkContext._jvm  # noqa: SLF001 - nothing else reaches the JVM
    for name in OTHERS:
        vars(view).setdefault(name, getattr(view, name))
    for name in COLUMNS:
        vars(view).setdefault(name, StaticMethods(getattr(view, name)))
