"""What is sound on a disk and what is not, without changing anything: ``semel log verify``.

Open ``directory`` first: it goes through a data directory. ``partition`` goes through one partition's folder, ``walk``
through one segment, batch by batch; ``indexes`` and ``producers`` hold the derived files against what was walked.
"""
