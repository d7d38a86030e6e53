"""The JVM's classes that PySpark calls for columns and plans, looked up once for a session.

Py4J caches neither classes nor methods: a class that is named without its package, such as `functions`, is looked for in
all jars, once for each package that PySpark imports; and for a method the list of all methods of its class is copied.
"""

from typing import Any

from pyspark.sql import SparkSession

COLUMN_CLASSES = ("functions", "org.apache.spark.sql.functions", "PythonUtils")
"""Classes of which PySpark calls static methods, several for each column."""
OTHER_CLASSES = (
    "PythonRDD",
    "PythonSQLUtils",
    "SerDeUtil",
    "SimplePythonFunction",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.expressions.Window",
)
"""Of these the class alone is kept."""


class StaticMethods:
    """Those of a class, each looked up when it is first named."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._java_class, name)
        setattr(self, name, method)
        return method


def look_up_once(spark: SparkSession) -> None:
    """Keep the classes as attributes of PySpark's view of the JVM, which asks the JVM only for names that it lacks."""
    view: Any = spark.sparkContext._jvm  # noqa: SLF001 - nothing else reaches the JVM
    kept = vars(view)
    kept.update({name: getattr(view, name) for name in OTHER_CLASSES if name not in kept})
    kept.update({name: StaticMethods(getattr(view, name)) for name in COLUMN_CLASSES if name not in kept})
