"""Produce requests: two parsers, and one operation for what both have parsed.

    in_place_parser                 the common request: one topic, one partition, read in its frame
    requests/handlers/produce       every other request, from the decoded message
      |  both return ``ProduceBatch`` objects (produce_batch)
      v
    produce_operation               check, admit, append, wait, answer
      |  record_checks              checks of batches that take long, on a worker
      |  transaction_admission      the transaction coordinator adds or verifies the partitions
      v
    produce_response                the response

Open ``produce_operation.py`` first; ``docs/design/produce.md`` describes the stages.
"""
