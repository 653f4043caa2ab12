"""The pages: each module asks brokers what its page shows. A view blocks, and runs in a thread."""
