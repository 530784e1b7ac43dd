"""This package has the commands that let conversations and files leave the store."""
