"""The source for Gemini CLI."""
