"""``semel demo``: kills the driver of a Spark job in the middle, once with a plain sink and once with ``semel.spark``.

Open ``demonstration.py`` first: it has the steps in order. The two jobs are ``plain_totals.py`` and
``exact_totals.py``; both run the query of ``totals.py``. The demo needs Spark: ``semel[spark]``.
"""
