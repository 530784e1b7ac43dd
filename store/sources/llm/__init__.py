"""The source for llm."""
