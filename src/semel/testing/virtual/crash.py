"""The crash of a simulated process, as an exception that its code must not catch."""

from __future__ import annotations


class SimulatedCrash(BaseException):
    """Raised from the disk operation in which the process dies, and from every one that it tries afterwards.

    Not an ``Exception``: what is written to survive errors must not survive this one.
    """
