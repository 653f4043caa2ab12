"""``python -m semel``: the command ``semel``, where it is not on the path."""

from semel.cli.main import main

raise SystemExit(main())
