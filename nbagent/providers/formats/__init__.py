"""The formats that providers speak: codecs that encode requests and decode answers, without any I/O."""
