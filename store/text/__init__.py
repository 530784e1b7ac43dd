"""Text in and out: JSON, validation, safe display, and the scripts of the world."""
