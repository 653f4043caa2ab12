"""One module per campaign, with ``COUNT`` and ``run(seed)``; see ``tools.campaign``."""
