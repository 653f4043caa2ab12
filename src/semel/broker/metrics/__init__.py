"""The broker's metrics, and the page from which Prometheus reads them. Open ``metrics.py`` first."""
