"""Wire: reports and files to the byte: CBOR, HPKE, Avro, JSON."""
