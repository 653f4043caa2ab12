"""The crash of a simulated process, as an exception that its code must not catch."""

from __future__ import annotations


class SimulatedCrash(BaseException):
    """Raised from the disk operation in which the process dies, and from every disk operation after it.

    Not an ``Exception``: code that handles errors and continues must not continue after this one.
    """
