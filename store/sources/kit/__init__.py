"""What the readers of foreign stores share."""
