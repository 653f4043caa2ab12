"""The views, one module for each page: it asks brokers for the page's content. A view blocks, and runs in a thread."""
