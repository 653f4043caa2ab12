"""The settings of a broker, and the entries of DescribeConfigs responses. Open ``broker_config.py`` first."""
