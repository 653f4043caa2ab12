"""The settings of a broker, and what DescribeConfigs tells of them. Open ``broker_config.py`` first."""
