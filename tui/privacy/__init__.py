"""Keeps secret values and unsafe text away from the terminal, the clipboard and screenshots."""
