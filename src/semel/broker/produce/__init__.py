"""Produce: two parsers, and one way from there.

    in_place_parser                 the common request: one topic, one partition, read in its frame
    requests/handlers/produce       every other request, from the decoded message
      |  both give ``ProduceBatch``es (produce_batch)
      v
    produce_operation               check, admit, append, wait, answer
      |  record_checks              a look into batches that takes long
      |  transaction_admission      the transaction coordinator adds or verifies the partitions
      v
    produce_response                the answer

Open ``produce_operation.py`` first; ``docs/design/produce.md`` describes the stages.
"""
