"""The formats that vendors speak: codecs that encode requests and decode answers, without any I/O."""
