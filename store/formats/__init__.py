"""The content formats of model vendors, turned into parts and back."""
