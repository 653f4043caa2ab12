"""How what was written survives: the disk, group commit, the journal, checkpoints. Open ``commit.py`` first."""
