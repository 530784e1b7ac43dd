"""The first screen: session list, conversation and record."""
