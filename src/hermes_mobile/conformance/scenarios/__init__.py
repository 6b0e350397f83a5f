"""What takes more than one frame, or a clock, or bytes that no client library sends."""
