"""The same hostile rows for us and for other libraries, side by side."""
