"""This package has the commands that share sessions and facts with other machines."""
