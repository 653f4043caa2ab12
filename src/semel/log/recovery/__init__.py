"""From files to a log after any crash, and cutting a log back. Open ``loading.py`` first."""
