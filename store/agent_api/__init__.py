"""This package holds what agents call: methods of Store, the recorder, chat history and google-adk's service."""
