"""What agents call: the methods of the five documents, the recorder, chat history, google-adk."""
