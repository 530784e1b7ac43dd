"""This package keeps sessions behind the interfaces of other libraries for agents. Each needs an extra of its own."""
