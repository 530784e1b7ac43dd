"""The widgets: they know what a session is and how it looks, never where it is kept."""
