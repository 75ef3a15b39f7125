"""What the demo needs besides the integration itself; nothing in here is to be copied into one of
your own."""
