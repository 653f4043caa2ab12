"""``python -m semel`` runs the command ``semel``, also where the command is not on the PATH."""

from semel.cli.main import main

raise SystemExit(main())
