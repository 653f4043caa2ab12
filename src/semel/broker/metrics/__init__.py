"""What the broker counts and measures, and the page that Prometheus reads. Open ``metrics.py`` first."""
