"""``semel demo``: a Spark job whose driver is killed in the middle, with a plain sink and with ``semel.spark``.

Read ``demonstration.py`` first: what happens, in which order. The two jobs are ``plain_totals.py`` and
``exact_totals.py``; both run the query of ``totals.py``. It needs Spark: ``semel[spark]``.
"""
