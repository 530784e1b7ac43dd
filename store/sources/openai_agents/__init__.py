"""This package reads the sessions of the OpenAI Agents SDK."""
